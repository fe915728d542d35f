// The browser of rows: one page of them; search, sort and pages are Python's.

function browser({ root, send, follow }) {
  const search = make("input", { type: "search", placeholder: "text, or value.price > 10", "aria-label": "Search, or a condition on a column", size: 26 });
  const number = make("span", { class: "ks-soft", "aria-live": "polite" });
  const title = make("h3", {});
  const back = button("‹", () => send("turn", { page: facts.page - 1 }), { "aria-label": "Page before" });
  const next = button("›", () => send("turn", { page: facts.page + 1 }), { "aria-label": "Next page" });
  const rows = make("div", { class: "ks-scroll" });
  const detail = make("div", { class: "ks-details", "aria-live": "polite" });
  let facts = { page: 0 }, asked = null;
  search.addEventListener("input", () => {
    clearTimeout(asked);
    asked = setTimeout(() => send("search", { text: search.value }), 120);
  });
  search.addEventListener("keydown", (event) => event.stopPropagation());
  root.append(title,
    make("div", { class: "ks-bar", role: "toolbar", "aria-label": "rows" }, search,
      make("span", { class: "ks-group" }, back, next), number,
      make("span", { class: "ks-gap" }), button("Refresh", () => send("refresh"))),
    make("div", { class: "ks-two" }, rows, detail));

  const heading = (name, kind) => {
    const sorted = facts.by === name;
    const act = button(name, () => send("sort", { by: name }), { class: "ks-sort" });
    if (sorted) act.append(facts.down ? " ▾" : " ▴");
    return make("th", { scope: "col", class: kind, "aria-sort": sorted ? (facts.down ? "descending" : "ascending") : "none" }, act);
  };

  follow("facts", (given) => {
    const focused = rows.contains(document.activeElement) ? document.activeElement.dataset.at : null;
    facts = given;
    title.textContent = facts.title;
    number.textContent = facts.number;
    back.disabled = facts.page === 0;
    next.disabled = facts.page + 1 >= facts.pages;
    const kinds = classes(facts.header, facts.rows);
    const body = facts.rows.map((cells, index) => {
      const row = make("tr", { tabindex: "0", "data-at": index, "aria-selected": String(index === facts.chosen),
        class: index === facts.chosen ? "ks-other" : null }, cells.map((cell, column) => make("td", { class: kinds[column] }, cellText(cell))));
      row.addEventListener("click", () => send("choose", { index }));
      row.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        event.stopPropagation();
        send("choose", { index });
      });
      return row;
    });
    rows.replaceChildren(make("table", { class: "ks-table ks-wide", role: "grid", "aria-label": facts.title },
      make("thead", {}, make("tr", {}, facts.header.map((name, column) => heading(name, kinds[column])))), make("tbody", {}, body)));
    walkable(body, { horizontal: false });
    if (focused !== null) body[Math.min(Number(focused), body.length - 1)]?.focus();
    const parts = Object.entries(facts.detail).flatMap(([name, text]) => [make("h3", {}, name), make("pre", {}, cellText(text))]);
    detail.replaceChildren(...(parts.length ? parts
      : [make("p", { class: "ks-soft" }, "Click a row, or walk with the arrow keys and press Enter, to see it in full.")]));
  });
}

export default { render: (given) => mount(given, "browser", browser) };
