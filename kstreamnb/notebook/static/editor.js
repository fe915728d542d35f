// The sample editor: a table of inputs. A cell is sent to Python when it is left; Python reads it and answers.

function editor({ root, send, follow }) {
  const number = make("span", { class: "ks-soft", "aria-live": "polite" });
  const wrong = make("p", { class: "ks-wrong", role: "status" });
  const body = make("tbody", {}), head = make("tr", {});
  const text = make("textarea", { readonly: true, rows: 8, "aria-label": "the sample as text", class: "ks-text" });
  const shown = make("span", { class: "ks-soft" });
  let facts = null, row = 0, column = 2, drawing = false;

  const act = (name, given = {}) => () => send(name, { row, ...given });
  const tools = {
    add: button("Add below", act("add")), duplicate: button("Duplicate", act("duplicate")),
    up: button("↑", act("move", { by: -1 }), { "aria-label": "Move up" }),
    down: button("↓", act("move", { by: 1 }), { "aria-label": "Move down" }),
    remove: button("Delete", act("remove")), undo: button("Undo", () => send("undo")),
  };
  const back = button("‹", () => send("turn", { page: facts.page - 1 }), { "aria-label": "Page before" });
  const next = button("›", () => send("turn", { page: facts.page + 1 }), { "aria-label": "Next page" });
  const pages = make("span", { class: "ks-group" }, back, next);
  root.append(
    make("div", { class: "ks-bar", role: "toolbar", "aria-label": "records" },
      make("span", { class: "ks-group" }, tools.add, tools.duplicate, tools.up, tools.down, tools.remove), tools.undo,
      pages, shown, make("span", { class: "ks-gap" }), number),
    make("div", { class: "ks-scroll" }, make("table", { class: "ks-table ks-wide ks-edit", "aria-label": "records" }, make("thead", {}, head), body)),
    wrong,
    make("details", {}, make("summary", {}, "As text"), text));

  const cell = (at, name) => body.querySelector(`input[data-row="${at}"][data-column="${name}"]`);
  const here = () => facts.columns[column];
  const mark = () => body.querySelectorAll("tr").forEach((each, index) =>
    each.classList.toggle("ks-here", facts.first + index === row));

  const input = (line, at, name, index) => {
    const why = line.wrong[name];
    const made = make("input", { type: "text", value: line.cells[index], "data-row": at, "data-column": name,
      "aria-label": `${name} of record ${at + 1}`, "aria-invalid": why ? "true" : null, title: why ?? null, spellcheck: "false",
      size: Math.max(name === "value" ? 24 : 6, Math.min(60, line.cells[index].length + 1)) });
    made.addEventListener("focus", () => { row = at; column = index; mark(); });
    made.style.minWidth = `calc(${Math.min(made.size, 22)}ch + 10px)`;  // a narrow page scrolls the table: a time stays readable
    let sent = line.cells[index];
    made.addEventListener("change", () => {
      if (drawing || made.value === sent) return;  // a browser also calls it a change when rows are replaced while someone types
      sent = made.value;
      send("put", { row: at, column: name, text: sent });
    });
    made.addEventListener("keydown", (event) => {
      const by = { ArrowDown: 1, ArrowUp: -1, Enter: 1 }[event.key];
      event.stopPropagation();
      if (event.key === "Escape") made.value = line.cells[index];
      if (!by) return;
      event.preventDefault();
      if (made.value !== line.cells[index]) made.dispatchEvent(new Event("change"));
      (cell(at + by, name) ?? made).focus();
    });
    return made;
  };

  follow("facts", (given) => {
    // Python may answer while someone types on: what is typed stays, with its cursor, unless records have moved.
    const typing = body.contains(document.activeElement) ? document.activeElement : null;
    const moved = facts !== null && given.moves !== facts.moves;
    const stays = typing && !moved && given.first === facts.first;
    const typed = stays && typing.value !== facts.rows[row - facts.first]?.cells[column];
    facts = given;
    number.textContent = facts.edited ? `${facts.number}, edited` : facts.number;
    wrong.textContent = [facts.wrong, ...facts.rows.flatMap((line, at) => Object.entries(line.wrong).map(([name, why]) =>
      `Record ${facts.first + at + 1}, ${name}: ${why}`))].filter(Boolean).join("\n");
    wrong.hidden = !wrong.textContent;
    shown.textContent = facts.shown;
    pages.hidden = facts.pages === 1;
    back.disabled = facts.page === 0;
    next.disabled = facts.page + 1 >= facts.pages;
    for (const name of ["duplicate", "up", "down", "remove"]) tools[name].disabled = !facts.rows.length;
    tools.undo.disabled = !facts.undo;
    text.value = facts.text;
    head.replaceChildren(make("th", { scope: "col" }, "#"), ...facts.columns.map((name) => make("th", { scope: "col" }, name)));
    drawing = true;
    body.replaceChildren(...facts.rows.map((line, index) => {
      const at = facts.first + index;
      return make("tr", {}, make("th", { scope: "row" }, String(at + 1)),
        facts.columns.map((name, place) => make("td", {}, input(line, at, name, place))));
    }));
    drawing = false;
    if (moved) row = facts.focus;
    row = Math.max(facts.first, Math.min(row, facts.first + facts.rows.length - 1));
    if (typing || moved) {
      const again = cell(row, here());
      again?.focus();
      if (again && typed) {
        again.value = typing.value;
        again.addEventListener("blur", () => again.dispatchEvent(new Event("change")), { once: true });
      }
      if (again && stays) again.setSelectionRange(typing.selectionStart, typing.selectionEnd);
    }
    mark();
  });
}

export default { render: (given) => mount(given, "editor", editor) };
