// Shared by all widgets: each module is this text followed by its own (see widgets/base.py).
// Everything of the user's enters the page as text, never as markup.

const still = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

// A picture that Python drew, as elements. Ids become data-id: the same picture may be on the page twice.
function drawing(text) {
  const parsed = new DOMParser().parseFromString(text, "image/svg+xml");
  if (parsed.querySelector("parsererror")) throw new Error("the picture is not SVG");
  const svg = document.importNode(parsed.documentElement, true);
  for (const element of [svg, ...svg.querySelectorAll("*")]) {
    if (["script", "foreignObject", "a", "image", "use"].includes(element.localName)) element.remove();
    for (const attribute of [...element.attributes]) {
      if (attribute.name.startsWith("on")) element.removeAttribute(attribute.name);
    }
    if (element.id) {
      element.dataset.id = element.id;
      element.removeAttribute("id");
    }
  }
  svg.setAttribute("role", "group");
  return svg;
}

// What a reader chose, for the next widget of the same kind; a page may forbid storage.
const remember = (name, value) => { try { localStorage.setItem(`kstreamnb.${name}`, value); } catch { /* not kept */ } };
const remembered = (name) => { try { return localStorage.getItem(`kstreamnb.${name}`); } catch { return null; } };

// Two buttons, of which one is pressed: operators or nodes. The next widget begins with the same view.
function viewSwitch({ send, follow, model }) {
  const titles = { logical: "the operators of the DSL", physical: "Kafka's nodes in their sub-topologies" };
  const views = Object.keys(titles), buttons = views.map((view) =>
    button(view === "physical" ? "Nodes" : "Operators", () => { remember("view", view); send("show", { view }); }, { title: titles[view] }));
  const kept = remembered("view");
  if (views.includes(kept) && kept !== model.get("view")) send("show", { view: kept });
  follow("view", (view) => buttons.forEach((each, index) => each.setAttribute("aria-pressed", String(views[index] === view))));
  return make("span", { class: "ks-group", role: "group", "aria-label": "view" }, buttons);
}

const found = (root, id) => root.querySelector(`[data-id="${CSS.escape(id)}"]`);

// Text for a cell: an instant stays on one line, and quoted text from right to left does not reverse what is beside it.
const INSTANT = /(\d{4}-\d\d-\d\dT[\d:.]+Z)/, RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefe]/;
const isolated = (text) => !RIGHT_TO_LEFT.test(text) ? text : text.split('"').flatMap((part, index) =>
  [index ? '"' : "", RIGHT_TO_LEFT.test(part) ? make("bdi", {}, part) : part]);
const cellText = (cell) => typeof cell !== "string" ? cell : cell.split(INSTANT).flatMap((part, index) =>
  index % 2 ? make("span", { class: "ks-instant" }, part) : isolated(part));

// The class of each column, as in the tables that Python makes: numbers are aligned right, and long words may break.
const NUMBER = /^[-+]?\d[\d,]*(\.\d+)?%?$/, LONG_WORD = /[^\s-]{41}/;
const classes = (header, rows) => header.map((_, column) => {
  const filled = rows.map((row) => String(row[column])).filter((cell) => cell && cell !== "null");
  if (filled.length && filled.every((cell) => NUMBER.test(cell))) return "ks-number";
  return filled.some((cell) => LONG_WORD.test(cell)) ? "ks-long-words" : null;
});

function table(caption, header, rows, { mark = null } = {}) {
  const kinds = classes(header, rows);
  const head = make("tr", {}, header.map((cell, column) => make("th", { scope: "col", class: kinds[column] }, cell)));
  const body = rows.map((row, index) =>
    make("tr", { class: mark ? mark(index) : null }, row.map((cell, column) => make("td", { class: kinds[column] }, cellText(cell)))));
  return make("table", { class: "ks-table" },
    caption ? make("caption", { class: caption.length > 50 ? "ks-long" : null }, caption) : null, make("thead", {}, head), make("tbody", {}, body));
}

const button = (label, act, attributes = {}) =>
  make("button", { type: "button", onclick: act, ...attributes }, label);

const PATIENCE_MS = 3000;

// Builds a widget: `paint` gets the root, a function that sends a command to Python, and one that follows a trait.
function mount({ model, el }, name, paint) {
  const root = make("section", { class: `ks-widget ks-${name}`, "aria-label": model.get("label") });
  // Keys pressed here are the widget's: JupyterLab asks the focused element itself whether they are its own.
  root.addEventListener("focusin", (event) => event.target.setAttribute("data-lm-suppress-shortcuts", "true"));
  const alarm = make("div", { class: "ks-error", role: "alert", hidden: true });
  el.append(root);
  const complain = (text) => {
    alarm.textContent = text;
    alarm.hidden = !text;
  };
  const guarded = (act) => (...given) => {
    try {
      return act(...given);
    } catch (error) {
      complain(`this widget has a fault: ${error.message}`);
      return undefined;
    }
  };
  const ends = [];
  // Python answers every command. Without a kernel a message is refused, or lost in silence.
  const unanswered = make("p", { class: "ks-notice-line", role: "status", hidden: true },
    "Python has not answered yet. If the kernel was restarted or stopped, run the cell again.");
  let overdue = null;
  const late = (is) => {
    clearTimeout(overdue);
    overdue = null;
    unanswered.hidden = !is;
  };
  const send = (command, given = {}) => {
    overdue ??= setTimeout(() => late(true), PATIENCE_MS);
    try {
      model.send({ do: command, ...given });
    } catch {
      late(true);
    }
  };
  const heard = () => late(false);
  model.on("msg:custom", heard);
  ends.push(heard, () => model.off("msg:custom", heard));
  root.append(unanswered);
  const follow = (trait, act) => {
    const heard = guarded(() => act(model.get(trait)));
    model.on(`change:${trait}`, heard);
    ends.push(() => model.off(`change:${trait}`, heard));
    heard();
  };
  const notice = make("p", { class: "ks-notice-line", role: "status", hidden: true });
  root.append(notice);
  follow("notice", (text) => {
    notice.textContent = text ? `Stale: ${text}` : "";
    notice.hidden = !text;
  });
  follow("error", complain);
  guarded(() => paint({ root, send, follow, guarded, model, ends }))();
  root.append(alarm);
  return () => ends.forEach((end) => end());
}

// Asks Python for new figures while somebody looks: not from a hidden page, and not again before the last answer.
function asking({ root, send, model, ends }, everyMs, wanted) {
  let waiting = false, since = 0;
  const sent = () => { waiting = true; since = Date.now(); };
  const timer = setInterval(() => {
    const stuck = waiting && Date.now() - since < 15000;
    if (stuck || document.hidden || !root.isConnected || !wanted()) return;
    sent();
    send("refresh");
  }, everyMs);
  const answered = () => { waiting = false; };
  model.on("msg:custom", answered);
  ends.push(() => { clearInterval(timer); model.off("msg:custom", answered); });
  return { sent };
}

// A part that scrolls can be reached by keys alone; Tab passes over others.
const reachable = (part, label) => {
  const scrolls = part.scrollHeight > part.clientHeight || part.scrollWidth > part.clientWidth;
  for (const [name, value] of Object.entries({ tabindex: "0", role: "region", "aria-label": label })) {
    if (scrolls) part.setAttribute(name, value);
    else part.removeAttribute(name);
  }
};

// Arrow keys walk over elements of which one is in the page's tab order.
function walkable(elements, { horizontal = true } = {}) {
  const go = (index) => {
    const next = elements[Math.max(0, Math.min(elements.length - 1, index))];
    elements.forEach((each) => each.setAttribute("tabindex", each === next ? "0" : "-1"));
    next.focus();
  };
  elements.forEach((element, index) => {
    element.setAttribute("tabindex", index ? "-1" : "0");
    element.addEventListener("keydown", (event) => {
      const steps = { ArrowDown: 1, ArrowUp: -1, ...(horizontal ? { ArrowRight: 1, ArrowLeft: -1 } : {}) };
      const place = event.key === "Home" ? 0 : event.key === "End" ? elements.length - 1 : index + steps[event.key];
      if (Number.isNaN(place)) return;
      event.preventDefault();
      event.stopPropagation();
      go(place);
    });
  });
}
