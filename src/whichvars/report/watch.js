// Ask for the content of the page again every few seconds, and show it if it has changed.
const main = document.querySelector("main");
const gone = document.getElementById("gone");
let shown = "";
const ask = async () => {
  try {
    const answer = await fetch("now", { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.statusText);
    const content = await answer.text();
    if (content !== shown) main.innerHTML = shown = content;
    gone.hidden = true;
  } catch {
    gone.hidden = false;
  }
  setTimeout(ask, 2000);
};
ask();
