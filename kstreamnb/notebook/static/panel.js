// The deploy panel: figures that Python computed, lines for the last batches, Stop and Restart.

const EVERY_MS = 1000;

function panel({ root, send, follow, model, ends }) {
  const state = make("strong", { class: "ks-state", role: "status" });
  const title = make("span", {});
  const live = make("input", { type: "checkbox", checked: true });
  const stop = button("Stop", () => act("stop", "stopping …"));
  const restart = button("Restart", () => act("restart", "restarting …"));
  const figures = make("dl", { class: "ks-figures" });
  const lines = make("div", { class: "ks-scroll ks-lines", tabindex: "0", role: "region", "aria-label": "charts" });
  const stores = make("div", {}), tasks = make("div", {}), drops = make("div", {}), letters = make("div", {});
  letters.append(button("Look at dead letters", () => send("read_letters")));
  const failure = make("div", { class: "ks-failure" });
  root.append(
    make("div", { class: "ks-bar", role: "toolbar", "aria-label": "deployment" }, title, state,
      make("span", { class: "ks-gap" }), make("label", {}, live, " live"),
      button("Refresh", () => send("refresh")), stop, restart),
    failure, figures, lines,
    make("div", { class: "ks-bar ks-top" }, stores, tasks, drops), letters);

  let current = "";
  const isOver = () => current === "stopped" || current === "failed";
  const act = (command, text) => {
    state.textContent = text;
    stop.disabled = restart.disabled = true;
    asked.sent();
    send(command);
  };
  const asked = asking({ root, send, model, ends }, EVERY_MS, () => live.checked && !isOver());

  const answered = () => {
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
    lines.replaceChildren(drawing(facts.charts));
    failure.replaceChildren(...(facts.failure ? [
      make("h3", {}, `The last error${facts.node ? `, at ${facts.node}` : ""}${facts.over ? ", before the last start" : ""}`), make("pre", { class: "ks-explained" }, facts.failure),
      facts.svg ? make("div", { class: "ks-scroll", tabindex: "0", role: "region", "aria-label": "graph with the node that failed" }, drawing(facts.svg)) : ""] : []));
    stores.replaceChildren(facts.stores.length ? table("Stores", ["store", "rows"], facts.stores) : "",
      facts.stores.length ? button("Count rows", () => send("count")) : "");
    letters.hidden = !facts.has_letters;
    letters.replaceChildren(letters.firstChild, facts.letters.length ? table("The last dead letters", ["record", "key", "value", "error"], facts.letters) : "");
    tasks.replaceChildren(facts.tasks.length ? table("Tasks", ["task", "records", "dropped", "state"], facts.tasks) : "");
    drops.replaceChildren(facts.drops.length ? table("Dropped", ["node", "why", "records"], facts.drops) : "");
  });
}

export default { render: (given) => mount(given, "panel", panel) };
