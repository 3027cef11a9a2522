"use strict";
// Two comforts; everything works without them. Texts are put in as text, never as markup.

// The price of a statement while it is typed.
const form = document.getElementById("ask");
if (form) {
  const price = document.getElementById("price");
  const wait = 500; // milliseconds after the last key
  let timer = 0;
  let running = null;
  let last = "";

  const show = (lines, bad) => {
    price.replaceChildren(...lines.map((line, place) => {
      const made = document.createElement("p");
      made.textContent = line;
      made.className = bad ? "problem" : place === 0 ? "first" : "more";
      return made;
    }));
  };

  const ask = async () => {
    const fields = new FormData(form);
    const sql = String(fields.get("sql")).trim();
    const sent = new URLSearchParams({token: form.dataset.token, sql, epsilon: fields.get("epsilon") || ""});
    if (fields.get("dry_run")) sent.set("dry_run", "on");
    if (sql.length < 8 || String(sent) === last) return;
    last = String(sent);
    if (running) running.abort();
    running = new AbortController();
    try {
      const found = await fetch(form.dataset.explain, {
        method: "POST", body: sent, signal: running.signal, headers: {"X-Sqlanon": "explain"},
      });
      if (!found.ok) {
        show([found.status === 403 ? "You are not logged in any more: open the page again." : "The price cannot be told now."], true);
        return;
      }
      const told = await found.json();
      if (told.problem) show([told.problem, ...(told.hint ? [told.hint] : [])], true);
      else show(told.lines.filter((line) => !line.startsWith("(")), false);
    } catch (error) {
      if (error.name !== "AbortError") show(["The server cannot be reached."], true);
    }
  };

  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, wait);
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.querySelector("button[value=ask]").click();
  });
  ask();
}

// A form that was sent is not sent twice by a second click.
for (const each of document.querySelectorAll("form[method=post]")) {
  each.addEventListener("submit", () => setTimeout(() => {
    for (const button of each.querySelectorAll("button")) button.disabled = true;
  }, 0));
}
