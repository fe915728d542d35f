// A line of text in the corner of the page, from the moment the model is made until it is closed: no cell shows it.

function line({ model }) {
  const box = make("div", { class: "ks-widget ks-line", role: "status", "aria-live": "off" });
  const paint = () => { box.textContent = model.get("text"); };
  model.on("change:text", paint);
  paint();
  document.body.append(box);
  return () => box.remove();
}

export default { initialize: line };
