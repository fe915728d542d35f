// The form of a prediction: Python keeps the answer and explains it after the run.

function question({ root, send, follow }) {
  const form = make("form", {});
  root.append(form);
  let painted = null;

  const field = (label, value, attributes) =>
    make("input", { "aria-label": label, value, onkeydown: (event) => event.stopPropagation(), ...attributes });
  const numeric = (text) => text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text;

  function fields({ text, name, options, rows, answer }) {
    if (options.length) {
      return options.map((option, index) => make("p", {}, make("label", {},
        make("input", { type: "radio", name, value: index, checked: option === answer }), " ", option)));
    }
    if (rows.length) {
      return [table(null, ["", "your answer"], rows.map((row) => [row, field(row, answer?.[row] ?? "", { name: row, size: 18 })]))];
    }
    return [make("p", {}, field(text, answer ?? "", { name: "number", inputmode: "decimal", size: 10 }))];
  }

  function read({ options, rows }) {
    const data = new FormData(form);
    if (options.length) return data.has(painted.name) ? options[Number(data.get(painted.name))] : null;
    if (rows.length) return Object.fromEntries(rows.map((row) => [row, numeric(data.get(row))]));
    return data.get("number").trim() === "" ? null : numeric(data.get("number"));
  }

  const kept = make("span", { class: "ks-soft", role: "status" });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const answer = read(painted);
    if (answer === null) kept.textContent = "Choose or type an answer first.";
    else send("answer", { answer });
  });

  follow("facts", (facts) => {
    const again = painted !== null;
    painted = facts;
    kept.textContent = facts.answer === null ? "" : "Kept. Run the next cell and compare.";
    if (again) return;
    form.append(make("fieldset", {}, make("legend", {}, `Predict: ${facts.text}`), ...fields(facts),
      make("p", {}, make("button", { type: "submit" }, "Keep my answer"), " ", kept)));
  });
}

export default { render: (context) => mount(context, "question", question) };
