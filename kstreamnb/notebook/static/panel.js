// The deploy panel: figures that Python computed, lines for the last batches, Stop and Restart.

const EVERY_MS = 1000;

function sparkline({ name, values, says, last }) {
  const NS = "http://www.w3.org/2000/svg", width = 180, height = 36;
  const svg = document.createElementNS(NS, "svg");
  for (const [key, value] of Object.entries({ viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": says, class: "ks-spark" }))
    svg.setAttribute(key, value);
  const top = Math.max(1, ...values), step = width / Math.max(1, values.length - 1);
  const points = values.map((value, index) => `${(index * step).toFixed(1)},${(height - 3 - (value / top) * (height - 6)).toFixed(1)}`);
  const line = document.createElementNS(NS, "polyline");
  line.setAttribute("points", points.length === 1 ? `0,${points[0].split(",")[1]} ${width},${points[0].split(",")[1]}` : points.join(" "));
  svg.append(line);
  return make("figure", { class: "ks-figure" }, make("figcaption", {}, make("span", { class: "ks-soft" }, name), " ", make("strong", {}, last)), svg);
}

function panel({ root, send, follow, ends }) {
  const state = make("strong", { class: "ks-state", role: "status" });
  const title = make("span", {});
  const live = make("input", { type: "checkbox", checked: true });
  const stop = button("Stop", () => act("stop", "stopping …"));
  const restart = button("Restart", () => act("restart", "restarting …"));
  const figures = make("dl", { class: "ks-figures" });
  const lines = make("div", { class: "ks-lines" });
  const stores = make("div", {}), tasks = make("div", {}), drops = make("div", {});
  const failure = make("div", { class: "ks-failure" });
  root.append(
    make("div", { class: "ks-bar", role: "toolbar", "aria-label": "deployment" }, title, state,
      make("span", { class: "ks-gap" }), make("label", {}, live, " live"),
      button("Refresh", () => send("refresh")), stop, restart),
    failure, figures, lines,
    make("div", { class: "ks-bar ks-top" }, stores, tasks, drops));

  let waiting = false, current = "", since = 0;
  const isOver = () => current === "stopped" || current === "failed";
  const act = (command, text) => {
    state.textContent = text;
    stop.disabled = restart.disabled = true;
    waiting = true;
    since = Date.now();
    send(command);
  };
  // A page that nobody sees, and a kernel that has not answered yet, are not asked again.
  const timer = setInterval(() => {
    const stuck = waiting && Date.now() - since < 15 * EVERY_MS;
    if (!live.checked || stuck || document.hidden || !root.isConnected || isOver()) return;
    waiting = true;
    since = Date.now();
    send("refresh");
  }, EVERY_MS);
  ends.push(() => clearInterval(timer));

  const answered = () => {
    waiting = false;
    stop.disabled = isOver();
    restart.disabled = false;
    state.textContent = current;
  };
  follow("error", answered);
  follow("facts", (facts) => {
    current = facts.state;
    answered();
    title.textContent = facts.application;
    state.className = `ks-state ks-${facts.state}`;
    figures.replaceChildren(...facts.figures.flatMap(([name, text]) => make("div", {}, make("dt", {}, name), make("dd", {}, text || "–"))));
    lines.replaceChildren(...facts.series.filter((each) => each.values.length).map(sparkline));
    failure.replaceChildren(...(facts.failure ? [
      make("h3", {}, facts.node ? `The last error, at ${facts.node}` : "The last error"), make("pre", { class: "ks-explained" }, facts.failure),
      facts.svg ? make("div", { class: "ks-scroll", tabindex: "0", role: "region", "aria-label": "graph with the node that failed" }, drawing(facts.svg)) : ""] : []));
    stores.replaceChildren(facts.stores.length ? table("Stores", ["store", "rows"], facts.stores) : "",
      facts.stores.length ? button("Count rows", () => send("count")) : "");
    tasks.replaceChildren(facts.tasks.length ? table("Tasks", ["task", "records", "dropped", "state"], facts.tasks) : "");
    drops.replaceChildren(facts.drops.length ? table("Dropped", ["node", "why", "records"], facts.drops) : "");
  });
}

export default { render: (given) => mount(given, "panel", panel) };
