// Plots of the table of resources, drawn anew when the table changes.
"use strict";
(() => {
  const box = document.getElementById("plots"), source = document.getElementById("usage");
  if (!box || !source || !window.uPlot) return;
  const hidden = document.getElementById("plots-hidden");
  if (hidden) hidden.hidden = true;
  const HEIGHT = 180, UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
  // Steps of an axis of bytes: powers of two.
  const STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power);
  let plots = [];

  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const bytes = value => {
    let power = 0;
    while (Math.abs(value) >= 1024 && power < UNITS.length - 1) { value /= 1024; power += 1; }
    return `${value >= 100 || Number.isInteger(value) ? Math.round(value) : value.toFixed(1)} ${UNITS[power]}`;
  };
  const show = (value, unit) => value === null || value === undefined ? "–" : unit === "number" ? String(Math.round(value * 100) / 100) : bytes(value) + (unit === "rate" ? "/s" : "");
  const clock = seconds => seconds >= 3600 ? `${(seconds / 3600).toFixed(1)} h` : seconds >= 120 ? `${Math.round(seconds / 60)} min` : seconds < 10 ? `${Math.round(seconds * 100) / 100} s` : `${Math.round(seconds)} s`;

  // Columns of the table by their plot; the first column is the time.
  const read = () => {
    const table = source.querySelector("table"), found = new Map();
    if (!table) return { times: [], found };
    const rows = Array.from(table.querySelectorAll("tbody tr"));
    const column = index => rows.map(row => { const one = row.cells[index].querySelector("data"); return one ? Number(one.value) : null; });
    Array.from(table.tHead.rows[0].cells).forEach((head, index) => {
      const key = head.dataset.plot;
      if (!key) return;
      if (!found.has(key)) found.set(key, { title: head.dataset.title, unit: head.dataset.unit, limit: head.dataset.limit, limitName: head.dataset.limitName, curves: [] });
      found.get(key).curves.push({ name: head.dataset.name, values: column(index) });
    });
    return { times: column(0), found };
  };
  const draw = () => {
    plots.forEach(one => one.destroy());
    plots = [];
    box.replaceChildren();
    const { times, found } = read();
    if (times.length < 2) return;
    // Lines differ by dashes and not by colour alone.
    const looks = [{ stroke: colour("--link") }, { stroke: colour("--wait"), dash: [6, 4] }];
    // All parts first: the room of each depends on the others.
    found.forEach(one => {
      const title = document.createElement("h3");
      one.part = document.createElement("div");
      title.textContent = one.title;
      one.part.append(title);
      box.append(one.part);
    });
    found.forEach(one => {
      const part = one.part;
      const value = (_, shown) => show(shown, one.unit);
      const series = [{ label: "After", value: (_, at) => at === null ? "–" : clock(at) }], data = [times];
      one.curves.forEach((curve, index) => { series.push({ label: curve.name, width: 2, value, ...looks[index % looks.length] }); data.push(curve.values); });
      if (one.limit) { series.push({ label: one.limitName, width: 1.5, stroke: colour("--bad"), dash: [2, 3], points: { show: false }, value }); data.push(times.map(() => Number(one.limit))); }
      const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
      plots.push(new uPlot({
        width: Math.max(200, part.clientWidth), height: HEIGHT, cursor: { drag: { x: false, y: false } },
        scales: { x: { time: false }, y: { range: (_, low, high) => [0, Math.max(high * 1.05, 1e-6)] } },
        axes: [{ ...axis, values: (_, ticks) => ticks.map(clock) }, { ...axis, size: 80, ...(one.unit === "number" ? {} : { incrs: STEPS }), values: (_, ticks) => ticks.map(tick => show(tick, one.unit)) }],
        series,
      }, data, part));
    });
  };
  draw();
  document.body.addEventListener("htmx:afterSettle", event => { if (event.detail.target === source) draw(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  let width = box.clientWidth;
  new ResizeObserver(() => { if (box.clientWidth !== width) { width = box.clientWidth; draw(); } }).observe(box);
})();
