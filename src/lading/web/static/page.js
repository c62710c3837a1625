// Keys, selection of rows and the state of live updates. The page works without this file, by reload.
"use strict";
(() => {
  const POLL = 15000; // milliseconds between two looks while the stream of events is broken
  const live = document.getElementById("live");
  const keys = document.getElementById("keys");
  let failures = 0, paused = false, poll = null;

  const say = text => { if (live && live.textContent !== text) live.textContent = text; };
  const look = () => {
    if (paused || !window.htmx) return;
    document.querySelectorAll("[hx-trigger*='poll']").forEach(one => htmx.trigger(one, "poll"));
  };

  document.body.addEventListener("htmx:sseOpen", () => {
    failures = 0;
    clearInterval(poll);
    poll = null;
    say(paused ? "Paused" : "Live");
  });
  document.body.addEventListener("htmx:sseError", () => {
    failures += 1;
    if (failures < 3 || poll) return;
    say("Not live: looking every 15 s");
    poll = setInterval(look, POLL);
  });
  // What a reader writes or has in hand must not be replaced by a newer list.
  document.body.addEventListener("htmx:beforeRequest", event => {
    const list = event.detail.elt;
    if (list.id !== "machines") return;
    const written = Array.from(list.querySelectorAll("input:not([type=hidden])")).some(one => one.value);
    if (written || list.contains(document.activeElement)) event.preventDefault();
  });
  // What is paused stays as it is until the reader goes on; then it is fetched once.
  document.body.addEventListener("htmx:beforeRequest", event => {
    const by = event.detail.requestConfig && event.detail.requestConfig.triggeringEvent;
    if (paused && by && /^(sse:|poll|every)/.test(by.type)) event.preventDefault();
  });
  const pause = () => {
    paused = !paused;
    say(paused ? "Paused" : "Live");
    if (!paused) look();
  };

  // Rows.
  const rows = () => Array.from(document.querySelectorAll("table.list tbody tr"));
  const at = () => rows().findIndex(row => row.classList.contains("at"));
  const move = step => {
    const all = rows();
    if (!all.length) return;
    const old = at(), next = Math.min(all.length - 1, Math.max(0, old < 0 ? 0 : old + step));
    all.forEach(row => row.classList.remove("at"));
    all[next].classList.add("at");
    const link = all[next].querySelector("a");
    if (link) link.focus();
  };
  const pick = () => {
    const row = rows()[at()], box = row && row.querySelector("input[type=checkbox]");
    if (box) { box.checked = !box.checked; box.dispatchEvent(new Event("change", { bubbles: true })); }
  };
  const open = id => { const link = document.querySelector(`[data-key='${id}']`); if (link) link.click(); };
  const everyBox = document.getElementById("every");
  if (everyBox) {
    everyBox.hidden = false;
    everyBox.addEventListener("change", () => {
      document.querySelectorAll("input[name=uuid]").forEach(box => { box.checked = everyBox.checked; });
    });
  }

  // Rows that are fetched anew stay selected, and the reader stays at the same one.
  let kept = null;
  document.body.addEventListener("htmx:beforeSwap", event => {
    if (event.detail.target.id !== "rows") return;
    const here = document.activeElement, row = rows()[at()];
    kept = {
      picked: Array.from(document.querySelectorAll("input[name=uuid]:checked"), box => box.id),
      row: row && row.id,
      inside: row && row.contains(here) ? (here.tagName === "A" ? "a" : "input") : "",
    };
  });
  // After settling: until then htmx puts the attributes of the old rows onto the new ones and back.
  // The rows settle without a pause (settle:0ms), so that no key or click finds them unselected.
  document.body.addEventListener("htmx:afterSettle", event => {
    if (event.detail.target.id !== "rows" || !kept) return;
    kept.picked.forEach(id => {
      const box = document.getElementById(id);
      if (box && !box.disabled) box.checked = true;
    });
    const row = kept.row && document.getElementById(kept.row);
    if (row) {
      row.classList.add("at");
      const inside = kept.inside && row.querySelector(kept.inside);
      if (inside) inside.focus();
    }
    kept = null;
  });

  // Logs.
  const log = document.querySelector(".log");
  const end = () => { if (log) log.scrollTop = log.scrollHeight; };
  if (log && log.dataset.end !== undefined) end();
  document.body.addEventListener("htmx:beforeSwap", event => {
    if (log && log.contains(event.target)) log.dataset.follow = log.scrollHeight - log.scrollTop - log.clientHeight < 40 ? "1" : "";
  });
  document.body.addEventListener("htmx:afterSettle", () => { if (log && log.dataset.follow) end(); });

  // Keys: none in fields, none with modifiers, and one switch turns all off.
  const stored = () => { try { return localStorage.getItem("keys") === "off"; } catch { return false; } };
  const off = document.getElementById("keys-off");
  const button = document.getElementById("keys-button");
  if (keys && button) {
    button.hidden = false;
    button.addEventListener("click", () => keys.showModal());
    off.checked = stored();
    off.addEventListener("change", () => { try { localStorage.setItem("keys", off.checked ? "off" : "on"); } catch { /* kept for this page */ } });
  }
  let prefix = "";
  document.addEventListener("keydown", event => {
    if (!keys || event.ctrlKey || event.altKey || event.metaKey || event.isComposing || off.checked || keys.open) return;
    const target = event.target;
    if (target.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
    const pressed = prefix ? `${prefix} ${event.key}` : event.key;
    prefix = "";
    const search = document.querySelector("main input[type=search]") || document.getElementById("find");
    const actions = {
      "?": () => keys.showModal(), "/": () => search && search.focus(), "g": () => { prefix = "g"; },
      "g u": () => open("g u"), "g n": () => open("g n"), "g r": () => open("g r"), "g p": () => open("g p"), "g i": () => open("g i"), "g m": () => open("g m"), "g t": () => open("g t"), "g w": () => open("g w"), "g a": () => open("g a"), "j": () => move(1), "k": () => move(-1), "x": pick,
      "l": () => open("l"), "w": () => open("w"), "u": () => open("u"), "G": end, ".": pause,
    };
    if (actions[pressed]) { event.preventDefault(); actions[pressed](); }
  });
})();
