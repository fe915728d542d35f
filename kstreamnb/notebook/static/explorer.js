// The graph explorer: paints the picture that Python drew, walks over it, and shows what there is to read.

const EVERY_MS = 2000;
const SMALLEST = 0.2;
const READABLE = 0.7;
const MANY = 100;  // shapes from which the first picture is fitted whole
const ZOOMS = [0.25, 0.4, 0.55, 0.7, 0.85, 1, 1.25, 1.5, 2, 3];

function explorer({ root, send, follow, model, ends }) {
  const search = make("input", { type: "search", placeholder: "Search", "aria-label": "Search in the graph", size: 16 });
  const hits = make("span", { class: "ks-soft", "aria-live": "polite" });
  const summary = make("span", { class: "ks-soft" });
  const scroller = make("div", { class: "ks-scroll ks-canvas", tabindex: "0", role: "region", "aria-label": "graph" });
  const details = make("div", { class: "ks-details", "aria-live": "polite" });
  const cuts = make("ul", { class: "ks-cuts" });
  const tasks = make("div", { class: "ks-tasks" });
  const live = make("input", { type: "checkbox", checked: true });
  const running = make("span", { class: "ks-running" }, make("label", {}, live, " live"), button("Refresh", () => send("refresh")));
  root.append(
    make("div", { class: "ks-bar", role: "toolbar", "aria-label": "graph tools" },
      viewSwitch({ send, follow, model }),
      make("span", { class: "ks-group" },
        button("Fold all", () => send("fold_all", { folded: true })),
        button("Unfold all", () => send("fold_all", { folded: false }))),
      make("span", { class: "ks-group" },
        button("−", () => zoom(-1), { "aria-label": "Zoom out" }),
        button("Fit", () => fit(), { title: "fit the picture into the frame" }),
        button("+", () => zoom(1), { "aria-label": "Zoom in" })),
      search, hits, make("span", { class: "ks-gap" }), running, summary),
    make("div", { class: "ks-two" }, scroller, details), tasks, cuts);

  let facts, picture = null, size = [0, 0], scale = 1, chosen = null, current = null, shown = null;

  const resize = () => {
    picture?.setAttribute("width", Math.round(size[0] * scale));
    picture?.setAttribute("height", Math.round(size[1] * scale));
  };
  const zoom = (step) => {
    const near = ZOOMS.reduce((best, each, at) => (Math.abs(each - scale) < Math.abs(ZOOMS[best] - scale) ? at : best), 0);
    scale = ZOOMS[Math.max(0, Math.min(ZOOMS.length - 1, near + step))];
    resize();
  };
  const least = () => (facts?.order.length > MANY ? SMALLEST : READABLE);
  const fit = (smallest = SMALLEST) => {
    scale = Math.max(smallest, Math.min(1, (scroller.clientWidth - 12) / size[0] || 1, 468 / size[1] || 1));
    resize();
  };
  // The first picture is laid out before the page has room for it.
  const watch = new ResizeObserver(() => {
    if (!scroller.clientWidth) return;
    watch.disconnect();
    fit(least());
  });

  const choose = (id, { tell = true } = {}) => {
    chosen = id;
    picture?.querySelectorAll(".ks-chosen").forEach((each) => {
      each.classList.remove("ks-chosen");
      each.setAttribute("aria-pressed", "false");
    });
    const thing = facts.things[id];
    const shape = picture && found(picture, id);
    shape?.classList.add("ks-chosen");
    shape?.setAttribute("aria-pressed", "true");
    if (tell) send("select", { name: thing ? thing.rows[0][0] === "name" ? thing.rows[0][1] : thing.label : "" });
    paintDetails(thing, id);
  };
  const paintDetails = (thing, id) => {
    if (!thing) {
      details.replaceChildren(make("p", { class: "ks-soft" },
        "Click a node, or walk with the arrow keys. Enter shows it, F folds its box, + and − zoom."));
      return;
    }
    const box = facts.boxes.find((each) => each.id === thing.box);
    details.replaceChildren(
      make("h3", {}, thing.label), thing.word && thing.word !== thing.label ? make("p", { class: "ks-soft" }, thing.word) : "",
      thing.code ? make("pre", { class: "ks-code" }, thing.code) : "",
      make("table", { class: "ks-table" }, make("tbody", {}, thing.rows.map(([name, text]) =>
        make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, text))))),
      box ? button(`${box.folded ? "Unfold" : "Fold"} ${box.title}`, () => fold(id), { class: "ks-fold" }) : "");
  };
  const fold = (id) => {
    const box = facts.boxes.find((each) => each.id === (facts.things[id]?.box ?? id));
    if (box) send("fold", { box: box.id });
  };

  const paint = (given) => {
    facts = given;
    const within = root.getRootNode().activeElement?.closest?.(".ks-thing") ? current : null;
    summary.textContent = facts.summary;
    cuts.replaceChildren(...facts.cuts.map((cut) => make("li", { class: "ks-soft" }, cut)));
    cuts.hidden = !facts.cuts.length;
    running.hidden = !facts.live;
    tasks.replaceChildren(facts.tasks.length
      ? table("Tasks", facts.task_header, facts.tasks, { mark: (row) => `ks-share-${facts.heat[row]}` }) : "");
    reachable(tasks, "tasks");
    picture = facts.svg ? drawing(facts.svg) : null;
    if (picture) size = ["width", "height"].map((name) => Number(picture.getAttribute(name)));
    else scroller.replaceChildren(make("ol", {}, facts.order.map((id) => make("li", { "data-id": id }, facts.things[id].says))));
    if (picture) scroller.replaceChildren(picture);
    const walk = facts.order.map((id) => found(scroller, id));
    facts.order.forEach((id, at) => {
      const shape = walk[at];
      shape.classList.add("ks-thing");
      for (const [name, value] of Object.entries({ role: "button", "aria-label": facts.things[id].says, "aria-pressed": "false" }))
        shape.setAttribute(name, value);
      shape.addEventListener("click", () => { current = id; choose(id); shape.focus({ preventScroll: true }); });
      shape.addEventListener("focus", () => { current = id; shape.scrollIntoView({ block: "nearest", inline: "nearest" }); });
      shape.addEventListener("dblclick", () => fold(id));
      shape.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") choose(id);
        else if (event.key.toLowerCase() === "f") fold(id);
        else return;
        event.preventDefault();
        event.stopPropagation();
      });
    });
    walkable(walk);
    for (const box of facts.boxes.filter((each) => !each.folded)) {
      found(scroller, box.id)?.addEventListener("dblclick", (event) => {
        if (!event.target.closest(".ks-thing")) send("fold", { box: box.id });
      });
    }
    if (shown === model.get("view")) resize();
    else fit(least());
    shown = model.get("view");
    seek(false);
    if (chosen && facts.things[chosen]) choose(chosen, { tell: false });
    else paintDetails(null);
    if (within) {
      const home = facts.things[within] ? within : facts.boxes.map((box) => box.id).find((id) => facts.order.includes(id) && id !== within);
      (found(scroller, home ?? facts.order[0]) ?? walk[0])?.focus({ preventScroll: true });
    }
  };

  let at = -1;
  const matches = () => {
    const asked = search.value.trim().toLowerCase();
    return asked ? facts.order.filter((id) => {
      const thing = facts.things[id];
      return [thing.label, thing.word, thing.code, ...thing.rows.map((row) => row[1])].some((text) => text.toLowerCase().includes(asked));
    }) : [];
  };
  const seek = (jump) => {
    const hit = matches(), asked = Boolean(search.value.trim());
    for (const id of facts.order) {
      const shape = found(scroller, id);
      shape.classList.toggle("ks-hit", hit.includes(id));
      shape.classList.toggle("ks-dim", asked && !hit.includes(id));
    }
    hits.textContent = asked ? `${hit.length} of ${facts.order.length}` : "";
    if (jump && hit.length) {
      at = (at + 1) % hit.length;
      choose(hit[at]);
      found(scroller, hit[at]).scrollIntoView({ block: "nearest", inline: "nearest" });
    }
  };
  search.addEventListener("input", () => { at = -1; seek(false); });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") seek(true);
    if (event.key === "Escape") { search.value = ""; seek(false); }
    event.stopPropagation();
  });
  scroller.addEventListener("keydown", (event) => {
    const act = { "+": () => zoom(1), "=": () => zoom(1), "-": () => zoom(-1), 0: () => fit() }[event.key];
    if (act) { act(); event.preventDefault(); event.stopPropagation(); }
  });
  scroller.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1 : -1);
  }, { passive: false });

  let grip = null;  // where the picture is held, to pull it
  scroller.addEventListener("pointerdown", (event) => {
    grip = event.button || event.target.closest(".ks-thing") ? null
      : [event.clientX + scroller.scrollLeft, event.clientY + scroller.scrollTop];
  });
  scroller.addEventListener("pointermove", (event) => {
    if (grip && event.buttons & 1) scroller.scrollTo(grip[0] - event.clientX, grip[1] - event.clientY);
  });

  asking({ root, send, model, ends }, EVERY_MS, () => live.checked && facts.live);
  follow("facts", paint);
  watch.observe(scroller);
  ends.push(() => watch.disconnect());
}

export default { render: (given) => mount(given, "explorer", explorer) };
