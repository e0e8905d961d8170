// Marks of the charts say which variable they belong to, under the pointer and with the keyboard; the table can be taken along.
window.whichvars.ready.then(({ columns, written, found, onPage }) => {
  const tip = document.getElementById("tip");

  const fill = (row, others) => {
    const name = document.createElement("strong");
    name.textContent = columns[0].values[row];
    const lines = columns.slice(1).map((column) => {
      const line = document.createElement("div");
      const label = column.label === "±" ? "Error, ±" : column.label;
      line.textContent = `${label}: ${written(column.kind, column.values[row])}`;
      return line;
    });
    if (others) {
      const line = document.createElement("div");
      line.textContent = `Stand-in for ${others}`;
      lines.push(line);
    }
    tip.replaceChildren(name, ...lines);
  };

  const show = (mark) => {
    fill(Number(mark.dataset.row), mark.dataset.others);
    tip.hidden = false;
    const dot = mark.querySelector("circle").getBoundingClientRect();
    const width = document.documentElement.clientWidth;
    const left = dot.right + 8 + tip.offsetWidth <= width ? dot.right + 8 : Math.max(4, dot.left - 8 - tip.offsetWidth);
    tip.style.left = `${left + scrollX}px`;
    tip.style.top = `${dot.bottom + 6 + scrollY}px`;
  };
  const hide = () => { tip.hidden = true; };

  document.querySelectorAll(".chart svg").forEach((chart) => {
    const marks = [...chart.querySelectorAll(".mark")];
    const go = (index) => {
      marks.forEach((mark, i) => { mark.tabIndex = i === index ? 0 : -1; });
      marks[index].focus();
    };
    marks.forEach((mark, index) => {
      mark.addEventListener("pointerenter", () => show(mark));
      mark.addEventListener("pointerleave", hide);
      mark.addEventListener("focus", () => show(mark));
      mark.addEventListener("blur", hide);
      mark.addEventListener("click", () => go(index));
      mark.addEventListener("keydown", (event) => {
        const to = { ArrowDown: index + 1, ArrowRight: index + 1, ArrowUp: index - 1, ArrowLeft: index - 1, Home: 0, End: marks.length - 1 }[event.key];
        if (event.key === "Escape") hide();
        if (to === undefined || to < 0 || to >= marks.length) return;
        event.preventDefault();
        go(to);
      });
    });
  });
  document.querySelectorAll(".hint").forEach((hint) => { hint.hidden = false; });

  const labels = columns.map((column) => column.label);
  const rowsOf = (list, text) => list.map((i) => columns.map((column) => text(column, i)));
  // an apostrophe before what a spreadsheet would take for a formula
  const guarded = (name) => /^[=+\-@\t\r]/.test(name) ? `'${name}` : name;
  const quoted = (value) => /[",\n\r]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
  const csv = () => [labels, ...rowsOf(found(), ({ kind, values }, i) => values[i] === null ? "" : kind === "name" ? guarded(values[i]) : String(values[i]))]
    .map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
  const markdown = () => {
    const safe = (text) => text.replaceAll("|", "\\|").replaceAll("\n", " ");
    const rows = rowsOf(onPage(), ({ kind, values }, i) => safe(written(kind, values[i])));
    return [labels, labels.map((_, i) => i ? "--:" : ":--"), ...rows].map((row) => `| ${row.join(" | ")} |`).join("\n") + "\n";
  };
  const latex = () => {
    const special = { "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "±": "$\\pm$", "−": "$-$", "—": "--", "<": "$<$", ">": "$>$" };
    const safe = (text) => text.replace(/[\\~^±−—<>&%$#_{}\n]/g, (c) => special[c] || (c === "\n" ? " " : `\\${c}`));
    const rows = rowsOf(onPage(), ({ kind, values }, i) => safe(written(kind, values[i])));
    const line = (row) => `${row.join(" & ")} \\\\`;
    return [`\\begin{tabular}{l${"r".repeat(labels.length - 1)}}`, "\\toprule", line(labels.map(safe)), "\\midrule", ...rows.map(line), "\\bottomrule", "\\end{tabular}", ""].join("\n");
  };
  const say = (text) => { document.getElementById("copied").textContent = text; };
  const copy = (text) => {
    const area = document.createElement("textarea");
    area.value = text;
    area.style.position = "fixed";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    say(done ? "The rows shown were copied." : "This browser does not allow copying.");
  };
  document.getElementById("csv").addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(["\ufeff", csv()], { type: "text/csv" }));
    link.download = "variables.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    say(`${found().length.toLocaleString("en")} rows were written.`);
  });
  document.getElementById("markdown").addEventListener("click", () => copy(markdown()));
  document.getElementById("latex").addEventListener("click", () => copy(latex()));
});
