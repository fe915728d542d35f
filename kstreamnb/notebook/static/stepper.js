// The replay stepper: moves over the steps of a run; the graph shows the record in flight.

const SPEEDS = { slow: 1600, steady: 800, fast: 300 };

function stepper({ root, send, follow, guarded, model, ends }) {
  const slider = make("input", { type: "range", min: 0, max: 0, step: 1, "aria-label": "step", class: "ks-slider" });
  const place = make("output", { class: "ks-place", "aria-live": "polite" });
  const buttons = {
    first: button("|◀", () => pause() || send("seek", { step: 0 }), { "aria-label": "To the beginning" }),
    runBack: button("◀◀", () => pause() || send("run_back"), { "aria-label": "To the previous breakpoint" }),
    back: button("◀", () => pause() || send("back"), { "aria-label": "Step back" }),
    play: button("Play", () => (playing ? pause() : play()), { class: "ks-play", "aria-pressed": "false" }),
    step: button("▶", () => pause() || send("step"), { "aria-label": "Step" }),
    runOn: button("▶▶", () => pause() || send("run_on"), { "aria-label": "To the next breakpoint" }),
    last: button("▶|", () => pause() || send("seek", { step: facts.total }), { "aria-label": "To the end" }),
  };
  for (const each of Object.values(buttons)) each.title = each.getAttribute("aria-label") ?? "";
  const speed = make("select", { "aria-label": "speed" }, Object.keys(SPEEDS).map((name) =>
    make("option", { value: name, selected: name === "steady" }, name)));
  const title = make("p", { class: "ks-title-line" });
  const canvas = make("div", { class: "ks-scroll", tabindex: "0", role: "region", "aria-label": "graph" });
  const why = make("div", { class: "ks-why", "aria-live": "polite" });
  const times = make("div", { class: "ks-scroll ks-times", tabindex: "0", role: "region", "aria-label": "timeline" });
  const shownStore = make("select", { "aria-label": "store of the timeline", onchange: () => send("show_time", { store: shownStore.value }) });
  const timeline = make("details", { open: true, class: "ks-timeline" }, make("summary", {}, "Timeline"),
    make("div", { class: "ks-bar" }, make("label", {}, "of store ", shownStore)), times);
  const key = make("input", { type: "text", placeholder: "key, such as ann", "aria-label": "key to stop at", size: 14 });
  const node = make("span", {});
  const stops = make("ul", { class: "ks-stops" });
  const folds = {
    stores: section("Stores", true), times: section("Stream time", true), windows: section("Open windows", true),
    waiting: section("Waiting", false), events: section("Everything in this step", false),
  };
  const addStop = () => { send("stop_at", { node: "", key: key.value }); key.value = ""; };
  key.addEventListener("keydown", (event) => { if (event.key === "Enter") addStop(); event.stopPropagation(); });
  root.append(
    make("div", { class: "ks-bar", role: "toolbar", "aria-label": "replay" },
      make("span", { class: "ks-group" }, Object.values(buttons)), slider, place, speed),
    title, why, canvas,
    make("div", { class: "ks-bar ks-below" }, viewSwitch({ send, follow, model }),
      make("strong", {}, "Breakpoints"), node, key, button("Stop at key", addStop)), stops,
    make("div", { class: "ks-two ks-even ks-above" },
      make("div", { class: "ks-panels" }, folds.stores.whole, folds.events.whole),
      make("div", { class: "ks-panels" }, folds.times.whole, folds.windows.whole, folds.waiting.whole)),
    make("div", { class: "ks-panels" }, timeline));

  let facts = { total: 0, position: 0 }, picture = null, playing = null, frame = null, selected = null, asked = null, wanted = null;

  function section(name, open) {
    const head = make("summary", {}, name), body = make("div", { class: "ks-body" });
    return { name, head, body, whole: make("details", { open, ontoggle: () => reachable(body, name) }, head, body) };
  }
  const fill = (part, number, ...children) => {
    part.head.textContent = number ? `${part.name}: ${number}` : part.name;
    part.body.replaceChildren(...children);
  };

  // --- playing: the next step is asked for when this one has been seen ---
  const play = () => {
    playing = true;
    wanted = null;
    buttons.play.textContent = "Pause";
    buttons.play.setAttribute("aria-pressed", "true");
    send(facts.position === facts.total ? "seek" : "step", facts.position === facts.total ? { step: 0 } : {});
  };
  const pause = () => {
    clearTimeout(playing);
    wanted = null;
    playing = null;
    buttons.play.textContent = "Play";
    buttons.play.setAttribute("aria-pressed", "false");
  };
  const goOn = () => {
    if (!playing) return;
    if (facts.hit || facts.position === facts.total) pause();
    else playing = setTimeout(() => send("step"), SPEEDS[speed.value]);
  };
  ends.push(pause, () => cancelAnimationFrame(frame));

  // The slider may move faster than Python answers: only the place where it rests is asked for, and it stays there.
  slider.addEventListener("input", () => {
    pause();
    const step = wanted = Number(slider.value);
    clearTimeout(asked);
    asked = setTimeout(() => {
      if (step === facts.position) wanted = null;
      send("seek", { step });
    }, 40);
  });

  // --- the record in flight ---
  let active = null;
  const trail = () => {
    cancelAnimationFrame(frame);
    if (!picture || !facts.counts) return;
    picture.querySelectorAll(".ks-flight").forEach((each) => each.remove());
    for (const name of ["ks-passed", "ks-visited", "ks-dropped"])
      picture.querySelectorAll(`.${name}`).forEach((each) => each.classList.remove(name));
    for (const [id, count] of Object.entries(facts.counts)) {
      const text = found(picture, id)?.querySelector("text");
      if (text) text.textContent = count;
    }
    for (const hop of facts.flight) {
      for (const id of [hop.tail, hop.head]) found(picture, id)?.classList.add("ks-visited");
      if (hop.edge) found(picture, hop.edge)?.classList.add("ks-passed");
    }
    for (const drop of facts.drops) found(picture, drop.node)?.classList.add("ks-dropped");
    const first = facts.flight.find((hop) => hop.edge);
    active = first ? found(picture, first.edge) : null;
    reveal();
    if (!still()) fly(facts.flight.filter((hop) => hop.edge));
  };
  const nearby = (shape, canvas) => {
    if (!shape || !canvas.clientHeight) return;
    const box = shape.getBoundingClientRect(), frame = canvas.getBoundingClientRect();
    if (box.top < frame.top || box.bottom > frame.bottom) canvas.scrollTop += box.top - frame.top - frame.height / 3;
    if (box.left < frame.left || box.right > frame.right) canvas.scrollLeft += box.left - frame.left - frame.width / 3;
  };
  const reveal = () => {
    for (const part of Object.values(folds)) reachable(part.body, part.name);
    nearby(active, canvas);
    nearby(folds.stores.body.querySelector("tr:is(.ks-new, .ks-gone, .ks-other) td"), folds.stores.body);
  };
  const fly = (hops) => {
    if (!hops.length) return;
    const each = Math.min(260, (SPEEDS[speed.value] * 0.8) / hops.length);
    let begun = null;
    const dot = document.createElementNS("http://www.w3.org/2000/svg", "circle");
    dot.setAttribute("class", "ks-flight");
    dot.setAttribute("r", "5");
    const move = guarded((now) => {
      begun ??= now;
      const at = Math.floor((now - begun) / each);
      if (at >= hops.length) { dot.remove(); return; }
      const edge = found(picture, hops[at].edge), path = edge?.querySelector("path");
      if (path) {
        if (dot.parentNode !== edge) edge.append(dot);
        const point = path.getPointAtLength(path.getTotalLength() * (((now - begun) % each) / each));
        dot.setAttribute("cx", point.x);
        dot.setAttribute("cy", point.y);
      }
      frame = requestAnimationFrame(move);
    });
    frame = requestAnimationFrame(move);
  };

  // A widget is painted before it is on the page: what is in flight, or changed, is brought into view when there is one.
  const watch = new ResizeObserver(guarded(reveal));
  watch.observe(canvas);
  ends.push(() => watch.disconnect());

  const paintGraph = () => {
    const graph = model.get("graph"), svg = model.get("svg");
    if (!svg || !graph.order) return;
    picture = drawing(svg);
    canvas.replaceChildren(picture);
    const walk = graph.order.map((id) => found(picture, id));
    graph.order.forEach((id, index) => {
      const shape = walk[index], thing = graph.things[id];
      shape.classList.add("ks-thing");
      for (const [name, value] of Object.entries({ role: "button", "aria-label": thing.says })) shape.setAttribute(name, value);
      const choose = () => {
        selected = thing;
        const name = thing.rows.find((row) => row[0] === "name")?.[1] ?? thing.label;
        picture.querySelectorAll(".ks-chosen").forEach((each) => each.classList.remove("ks-chosen"));
        shape.classList.add("ks-chosen");
        send("select", { name });
        const stops = ["source", "processor", "sink", "operator"].includes(thing.kind);
        const place = thing.kind === "operator" ? id : name;
        node.replaceChildren(stops ? button(`Stop at ${thing.label}`, () => send("stop_at", { node: place, key: "" })) : "");
        if (thing.kind === "store") {
          const place = [...folds.stores.body.querySelectorAll("[data-store]")].find((each) => each.dataset.store === id);
          place?.scrollIntoView({ block: "nearest" });
        }
      };
      shape.addEventListener("click", choose);
      shape.addEventListener("focus", () => shape.scrollIntoView({ block: "nearest", inline: "nearest" }));
      shape.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        choose();
        event.preventDefault();
        event.stopPropagation();
      });
    });
    walkable(walk);
    trail();
  };

  // --- event time: the picture holds every step; later parts are hidden ---
  let scene = null;
  const paintTimeline = () => {
    const svg = model.get("timeline");
    scene = svg ? drawing(svg) : null;
    times.replaceChildren(scene ?? "");
    scene?.addEventListener("click", (event) => {
      const step = Number(event.target.closest("[data-step]")?.dataset.step);
      if (step) pause() || send("seek", { step });
    });
    showMoment();
  };
  const showMoment = () => {
    const moment = facts.timeline;
    if (!moment) return;
    const options = (moment.stores ?? []).map((name) => make("option", { value: name, selected: name === moment.store }, name));
    shownStore.replaceChildren(...options);
    shownStore.parentElement.hidden = options.length < 2;
    if (!scene) { times.replaceChildren(moment.note ?? ""); return; }
    const at = facts.position, inTime = (name, test) => scene.querySelectorAll(`[data-${name}]`).forEach(test);
    inTime("step", (each) => {
      const step = Number(each.dataset.step), gone = Number(each.dataset.gone ?? Infinity);
      each.classList.toggle("ks-later", step > at || gone <= at);
      each.classList.toggle("ks-current", step === at);
    });
    inTime("closed", (each) => {
      const closed = Number(each.dataset.closed) <= at;
      each.classList.toggle("ks-closed", closed);
      each.classList.toggle("ks-open", !closed);
    });
    inTime("now", (each) => {
      const x = moment.now[Number(each.dataset.now)];
      each.classList.toggle("ks-later", x === null);
      if (x !== null) for (const name of ["x1", "x2"]) each.setAttribute(name, x);
    });
    scene.querySelectorAll(".ks-value").forEach((each, index) => { each.textContent = moment.values[index] ?? ""; });
    scene.querySelectorAll(".ks-now-text").forEach((each, index) => { each.textContent = moment.times[index] ?? ""; });
  };

  const paint = (given) => {
    facts = given;
    slider.max = facts.total;
    if (wanted === null || wanted === facts.position) { slider.value = facts.position; wanted = null; }
    slider.setAttribute("aria-valuetext", `step ${facts.position} of ${facts.total}`);
    place.textContent = `step ${facts.position} of ${facts.total}`;
    title.replaceChildren(...cellText(facts.summary ? `${facts.title} — ${facts.summary}` : facts.title));
    for (const name of ["first", "runBack", "back"]) buttons[name].disabled = facts.position === 0;
    for (const name of ["step", "runOn", "last"]) buttons[name].disabled = facts.position === facts.total;
    const said = [...facts.explanations, ...(facts.failed ? [`The run ended here: ${facts.failed}`] : [])];
    why.replaceChildren(...said.map((text) => make("pre", { class: "ks-explained" }, text)));
    stops.replaceChildren(...facts.breakpoints.map((text, index) => make("li", {}, text, " ",
      button("×", () => send("clear", { index }), { "aria-label": `Remove the breakpoint ${text}` }))));
    const marks = { new: "ks-new", gone: "ks-gone", other: "ks-other" };
    const changed = facts.stores.filter((store) => store.changed).length;
    fill(folds.stores, changed ? `${changed} changed` : "", ...facts.stores.map((store) =>
      make("div", { class: "ks-store-rows", "data-store": store.id }, table(`${store.name} (${store.kind}): ${store.number}`,
        ["task", "key", "before", "after", "time", "note"], store.rows, { mark: (index) => marks[store.marks[index]] ?? null }))));
    fill(folds.times, "", table("", ["task", "before", "after"], facts.times, {
      mark: (index) => (facts.times[index][1] !== facts.times[index][2] ? "ks-other" : null) }));
    fill(folds.windows, facts.windows.number, facts.windows.rows.length ? table("", facts.windows.header, facts.windows.rows) : "");
    fill(folds.waiting, facts.waiting.number, facts.waiting.rows.length ? table("", facts.waiting.header, facts.waiting.rows) : "");
    fill(folds.events, facts.summary, facts.events.rows.length ? table("", facts.events.header, facts.events.rows) : "");
    trail();
    showMoment();
    goOn();
  };

  follow("svg", paintGraph);
  follow("graph", paintGraph);
  follow("facts", paint);
  follow("timeline", paintTimeline);
}

export default { render: (given) => mount(given, "stepper", stepper) };
