// A terminal in a container: asks for a ticket, opens a websocket with it, and passes bytes to xterm.js.
"use strict";
(() => {
  const form = document.getElementById("enter");
  if (!form || !window.Terminal) return;
  const card = document.getElementById("shell"), box = document.getElementById("terminal");
  const said = document.getElementById("shell-said"), leave = document.getElementById("leave");
  const button = form.querySelector("button");
  let socket = null, terminal = null, fit = null;
  form.hidden = false;
  document.getElementById("without").hidden = true;

  const say = text => { said.textContent = text; };
  const words = text => new DOMParser().parseFromString(text, "text/html").body.textContent.trim();
  const colours = () => {
    const look = getComputedStyle(document.documentElement), one = name => look.getPropertyValue(name).trim();
    return { background: one("--code"), foreground: one("--text"), cursor: one("--text"), cursorAccent: one("--code"), selectionBackground: one("--link"), selectionForeground: one("--card") };
  };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => { if (terminal) terminal.options.theme = colours(); });

  const tell = message => { if (socket && socket.readyState === WebSocket.OPEN) socket.send(message); };
  const size = () => ({ columns: terminal.cols, rows: terminal.rows });
  const open = reader => {
    if (terminal) terminal.dispose();
    terminal = new Terminal({
      theme: colours(), screenReaderMode: reader, minimumContrastRatio: 4.5, scrollback: 5000,
      fontFamily: getComputedStyle(document.documentElement).getPropertyValue("--mono").trim(), fontSize: 14,
      cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches,
    });
    fit = new FitAddon.FitAddon();
    terminal.loadAddon(fit);
    terminal.open(box);
    fit.fit();
    terminal.attachCustomKeyEventHandler(event => {
      if (event.key !== "F6" || !event.shiftKey) return true;
      if (event.type === "keydown") leave.focus();
      event.preventDefault();
      return false;
    });
    const encoder = new TextEncoder();
    const typed = data => { for (let at = 0; at < data.length; at += 16384) tell(data.slice(at, at + 16384)); };
    terminal.onData(text => typed(encoder.encode(text)));
    terminal.onBinary(text => typed(Uint8Array.from(text, one => one.charCodeAt(0))));
    terminal.onResize(() => tell(JSON.stringify(size())));
  };
  const connect = ticket => {
    let shown = 0, told = 0;
    socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}${form.dataset.place}/socket`);
    socket.binaryType = "arraybuffer";
    socket.addEventListener("open", () => {
      tell(JSON.stringify({ ticket, ...size() }));
      say("Connected");
      terminal.focus();
    });
    socket.addEventListener("message", event => {
      if (typeof event.data === "string") { say(JSON.parse(event.data).ended); return; }
      const data = new Uint8Array(event.data);
      terminal.write(data, () => {
        shown += data.length;
        // One word for each 32 KiB is enough for the server to go on.
        if (shown - told < 32768) return;
        told = shown;
        tell(JSON.stringify({ shown }));
      });
    });
    socket.addEventListener("close", () => {
      if (said.textContent === "Connected" || said.textContent === "Connecting") say("The connection to the server has ended.");
      terminal.options.disableStdin = true;
      form.hidden = false;
      button.disabled = false;
      leave.disabled = true;
      socket = null;
    });
  };

  form.addEventListener("submit", async event => {
    event.preventDefault();
    const fields = new FormData(form);
    button.disabled = true;
    card.hidden = false;
    leave.disabled = false;
    say("Connecting");
    try {
      const answer = await fetch(`${form.dataset.place}/ticket`, {
        method: "POST", headers: { "HX-Request": "true" },
        body: new URLSearchParams({ form_token: fields.get("form_token"), login: fields.get("login") }),
      });
      const text = await answer.text();
      if (answer.status !== 200) {
        say(words(text) || "The server gave no ticket; reload the page.");
        button.disabled = false;
        leave.disabled = true;
        return;
      }
      form.hidden = true;
      // A terminal that is out of sight is not drawn.
      card.scrollIntoView({ block: "start" });
      open(fields.get("reader") === "on");
      connect(JSON.parse(text).ticket);
    } catch {
      say("The server cannot be reached; try again.");
      button.disabled = false;
    }
  });
  leave.addEventListener("click", () => { if (socket) socket.close(); });
  new ResizeObserver(() => { if (fit && socket) fit.fit(); }).observe(box);
})();
