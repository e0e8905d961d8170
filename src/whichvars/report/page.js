// The table of variables: sort, find, turn pages. Only the rows of one page are in the document, so that twenty
// thousand variables are as quick as ten.
"use strict";
window.whichvars = { ready: (async () => {
  const ROWS = 25, BAR = 5;
  // a long table is compressed
  const read = async (text) => {
    if (text.startsWith("[")) return text;
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  };
  const columns = JSON.parse(await read(document.getElementById("data").textContent));
  const names = columns[0].values, probabilities = columns[1].values;
  const lower = names.map((name) => name.toLowerCase());
  const element = (id) => document.getElementById(id);
  const [find, least, where, back, next] = ["find", "least", "where", "back", "next"].map(element);
  const body = element("table").tBodies[0];
  const headers = [...element("table").tHead.rows[0].cells];
  let order = names.map((_, i) => i); // all rows, as sorted
  let shown = order; // those that are asked for
  let page = 0;

  const written = (kind, value) => {
    if (value === null) return "—";
    if (kind === "name") return value;
    if (kind === "count") return value < 1e7 ? Math.round(value).toLocaleString("en") : ">10,000,000";
    if (kind === "number" || kind === "spread") return value.toPrecision(3).replaceAll("-", "−");
    if (value > 0 && value < 0.0005) return "<0.001";
    if (value >= 0.9995 && value < 1) return ">0.999";
    return value.toFixed(3);
  };

  const cell = (column, i) => {
    const { kind, values, notes } = column;
    const made = document.createElement(kind === "name" ? "th" : "td");
    made.className = kind;
    if (kind === "name") {
      made.scope = "row";
      made.title = values[i];
    }
    if (notes && notes[i]) made.title = notes[i];
    if (kind === "probability") {
      const bar = document.createElement("span");
      bar.className = "bar";
      bar.style.width = (BAR * values[i]).toFixed(2) + "em";
      made.append(bar);
    }
    made.append(written(kind, values[i])); // as text: a name is never read as HTML
    return made;
  };

  const draw = () => {
    const pages = Math.max(1, Math.ceil(shown.length / ROWS));
    page = Math.min(Math.max(page, 0), pages - 1);
    const first = page * ROWS;
    const rows = shown.slice(first, first + ROWS).map((i) => {
      const row = document.createElement("tr");
      row.append(...columns.map((column) => cell(column, i)));
      return row;
    });
    body.replaceChildren(...rows);
    const count = (n) => n.toLocaleString("en");
    const of = shown.length < names.length ? `${count(shown.length)} found among ${count(names.length)}` : count(names.length);
    const noun = names.length === 1 ? "variable" : "variables";
    where.textContent = shown.length === 0
      ? `No variable found among ${count(names.length)}`
      : pages === 1 ? `${of} ${noun}` : `${count(first + 1)} to ${count(first + rows.length)} of ${of} ${noun}`;
    back.hidden = next.hidden = pages === 1;
    back.disabled = page === 0;
    next.disabled = page === pages - 1;
  };

  const select = () => {
    const text = find.value.trim().toLowerCase(), limit = Number(least.value);
    shown = order.filter((i) => probabilities[i] >= limit && lower[i].includes(text));
    page = 0;
    draw();
  };

  const sort = (index, direction) => {
    const { kind, values } = columns[index];
    const collator = new Intl.Collator("en", { numeric: true });
    const compare = kind === "name" ? (a, b) => collator.compare(values[a], values[b]) : (a, b) => values[a] - values[b];
    order = names.map((_, i) => i).sort((a, b) => {
      if (values[a] === null || values[b] === null) return (values[a] === null) - (values[b] === null) || a - b; // at the end
      return direction * compare(a, b) || a - b;
    });
    headers.forEach((header, i) => {
      if (i === index) header.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
      else header.removeAttribute("aria-sort");
    });
    select();
  };

  headers.forEach((header, index) => {
    header.querySelector("button").addEventListener("click", () => {
      const first = columns[index].kind === "name" ? "ascending" : "descending";
      const now = header.getAttribute("aria-sort");
      const wanted = now === null ? first : now === "ascending" ? "descending" : "ascending";
      sort(index, wanted === "ascending" ? 1 : -1);
    });
  });
  find.addEventListener("input", select);
  least.addEventListener("change", select);
  element("controls").addEventListener("submit", (event) => event.preventDefault());
  back.addEventListener("click", () => { page -= 1; draw(); });
  next.addEventListener("click", () => { page += 1; draw(); });
  element("controls").hidden = false;
  draw();
  return { columns, written, found: () => shown, onPage: () => shown.slice(page * ROWS, (page + 1) * ROWS) };
})() };
