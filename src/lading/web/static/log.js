// A log that grows at both ends: earlier lines are put above those that are there, and the page keeps a bounded number.
"use strict";
(() => {
  const MOST = 5000; // lines in the page
  const log = document.getElementById("log"), earlier = document.getElementById("earlier"), later = document.getElementById("later");
  if (!log) return;
  const batches = () => Array.from(log.querySelectorAll(":scope > .batch"));
  const count = () => log.querySelectorAll(".line").length;
  const link = earlier && earlier.querySelector("a");

  // Where the lines begin now: what the link to earlier ones leads to.
  const begin = () => {
    const first = batches()[0], before = first ? first.dataset.before : "";
    earlier.hidden = !before || before.split(",").every(one => one.endsWith(":0"));
    const place = link.href.replace(/([?&])before=[^&]*/, "");
    link.href = `${place}&before=${encodeURIComponent(before)}`;
    const text = earlier.querySelector(".dim");
    if (text) text.hidden = true;
  };
  const trim = (pick, after) => {
    let cut = false;
    for (let all = batches(); count() > MOST && all.length > 1; all = batches()) {
      const one = pick(all), height = one.offsetHeight;
      one.remove();
      cut = true;
      after(height);
    }
    return cut;
  };

  if (link) link.addEventListener("click", async event => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const first = batches()[0];
    if (!first || link.dataset.busy) return;
    link.dataset.busy = "1";
    try {
      const answer = await fetch(`${link.dataset.more}&before=${encodeURIComponent(first.dataset.before)}`, { headers: { "HX-Request": "true" } });
      if (!answer.ok || answer.status === 204) { location.assign(link.href); return; }
      const made = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector(".batch");
      if (!made) { location.assign(link.href); return; }
      const height = log.scrollHeight;
      log.prepend(document.adoptNode(made));
      log.scrollTop += log.scrollHeight - height;
      // The lines at the end make room, and new ones are no longer shown as they come.
      if (trim(all => all[all.length - 1], () => {})) {
        const more = document.getElementById("more");
        if (more) more.remove();
        later.hidden = false;
      }
      begin();
    } catch {
      location.assign(link.href);
    } finally {
      delete link.dataset.busy;
    }
  });
  document.body.addEventListener("htmx:afterSettle", () => {
    const follows = log.dataset.follow;
    if (trim(all => all[0], height => { if (!follows) log.scrollTop -= height; })) begin();
  });
  const aloud = document.getElementById("aloud");
  if (aloud) aloud.addEventListener("change", () => log.setAttribute("aria-live", aloud.checked ? "polite" : "off"));
})();
