// Zoom and pan of a drawing: its size changes, and it scrolls in its box.
"use strict";
(() => {
  const box = document.getElementById("canvas"), drawing = document.getElementById("drawing-svg"), bar = document.getElementById("zoom");
  if (!box || !drawing || !bar) return;
  const LEAST = 0.1, MOST = 3;
  const width = drawing.width.baseVal.value, height = drawing.height.baseVal.value;
  let scale = 1;
  bar.hidden = false;

  // The point at `x`, `y` of the box stays where it is.
  const zoom = (wanted, x, y) => {
    const next = Math.min(MOST, Math.max(LEAST, wanted)), factor = next / scale;
    const left = (box.scrollLeft + x) * factor - x, top = (box.scrollTop + y) * factor - y;
    scale = next;
    drawing.setAttribute("width", width * scale);
    drawing.setAttribute("height", height * scale);
    box.scrollLeft = left;
    box.scrollTop = top;
  };
  const middle = factor => zoom(factor ? scale * factor : Math.min(1, box.clientWidth / width, innerHeight * 0.7 / height), box.clientWidth / 2, box.clientHeight / 2);
  bar.addEventListener("click", event => { if (event.target.dataset.zoom) middle(Number(event.target.dataset.zoom)); });
  box.addEventListener("wheel", event => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    const place = box.getBoundingClientRect();
    zoom(scale * (event.deltaY < 0 ? 1.15 : 1 / 1.15), event.clientX - place.left, event.clientY - place.top);
  }, { passive: false });
  box.addEventListener("keydown", event => {
    const factor = { "+": 1.25, "=": 1.25, "-": 0.8, "0": 0 }[event.key];
    if (factor === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    middle(factor);
  });
  let held = null;
  box.addEventListener("pointerdown", event => {
    if (event.pointerType !== "mouse" || event.button !== 0 || event.target.closest("a")) return;
    held = { x: event.clientX + box.scrollLeft, y: event.clientY + box.scrollTop };
    box.setPointerCapture(event.pointerId);
    box.classList.add("held");
  });
  box.addEventListener("pointermove", event => {
    if (!held) return;
    box.scrollLeft = held.x - event.clientX;
    box.scrollTop = held.y - event.clientY;
  });
  const drop = () => { held = null; box.classList.remove("held"); };
  box.addEventListener("pointerup", drop);
  box.addEventListener("pointercancel", drop);
  // What can be read whole is shown whole.
  const whole = Math.min(box.clientWidth / width, innerHeight * 0.7 / height);
  if (whole < 1 && whole >= 0.65) middle(0);
  // The request of the page is in sight at the start.
  const start = drawing.querySelector(".start");
  if (start) {
    box.scrollLeft = (start.x.baseVal.value + 90) * scale - box.clientWidth / 2;
    box.scrollTop = (start.y.baseVal.value + 20) * scale - box.clientHeight / 2;
  }
})();
