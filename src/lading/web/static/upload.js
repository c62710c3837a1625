// Uploads by the file chooser or by drag, one file after the other, with progress: into a collection,
// or in the form of a request into a new one, which becomes lines of its inputs.
"use strict";
(() => {
  const NAMED = 20; // files of an upload that have a line of their own in the inputs
  const box = document.getElementById("upload");
  if (!box) return;
  const chooser = box.querySelector("input[type=file]"), bar = box.querySelector("progress");
  const said = box.querySelector("[role=status]"), faults = box.querySelector("ul");
  const token = (box.querySelector("input[name=form_token]") || box.closest("form").querySelector("input[name=form_token]")).value;
  const inputs = document.getElementById(box.dataset.inputs), project = document.getElementById(box.dataset.project);
  const submitButton = inputs && box.closest("form").querySelector("button.main");
  let busy = false;
  box.querySelector("[data-chooser]").hidden = false;
  document.getElementById("upload-hidden").hidden = true;

  const words = text => new DOMParser().parseFromString(text, "text/html").body.textContent.trim();
  const call = (path, kind, body, progress) => new Promise(done => {
    const request = new XMLHttpRequest();
    request.open("POST", path);
    request.setRequestHeader("X-Form-Token", token);
    request.setRequestHeader("HX-Request", "true");
    request.setRequestHeader("Content-Type", kind);
    if (progress) request.upload.addEventListener("progress", progress);
    request.addEventListener("loadend", () => done({
      text: request.responseText,
      fault: request.status === 201 ? "" : words(request.responseText) || "the server did not store it; try again",
    }));
    request.send(body);
  });
  const submit = (path, fields) => call(path, "application/x-www-form-urlencoded", new URLSearchParams({ form_token: token, ...fields }).toString());
  const complain = text => {
    const line = document.createElement("li");
    line.className = "fault";
    line.textContent = text;
    faults.append(line);
  };
  // A line of the inputs has neither a line break in it nor a blank at its end.
  const fits = name => name === name.trim() && !/[\r\n=]/.test(name);
  const add = (collection, names) => {
    const lines = names.length > NAMED || !names.every(fits)
      ? [`/in/${collection.name.replace(/[^A-Za-z0-9._-]+/g, "_")}=${collection.uuid}`]
      : names.map(name => `/in/${name}=${collection.uuid}/${name}`);
    inputs.value = [inputs.value.trimEnd(), ...lines].filter(Boolean).join("\n");
  };
  const free = () => {
    busy = false;
    if (submitButton) submitButton.disabled = false;
  };
  const upload = async chosen => {
    if (busy || !chosen.length) return;
    busy = true;
    if (submitButton) submitButton.disabled = true; // Without the lines of what is on its way.
    faults.replaceChildren();
    let place = box.dataset.place, collection = null;
    if (inputs) {
      const answer = await submit(box.dataset.create, { name: chosen[0].name, project: project.value });
      if (answer.fault) {
        complain(answer.fault);
        free();
        return;
      }
      collection = JSON.parse(answer.text);
      place = `/ui/collections/${collection.uuid}`;
    }
    bar.hidden = false;
    const total = chosen.reduce((sum, file) => sum + file.size, 0), stored = [];
    let before = 0;
    for (const [index, file] of chosen.entries()) {
      said.textContent = `Uploading ${index + 1} of ${chosen.length}`;
      const answer = await call(`${place}/upload?path=${encodeURIComponent(file.name)}`, "application/octet-stream", file,
        event => { bar.value = total ? (before + event.loaded) / total : 1; });
      before += file.size;
      if (answer.fault) complain(`${file.name}: ${answer.fault}`);
      else stored.push(file.name);
    }
    free();
    bar.hidden = true;
    chooser.value = "";
    said.textContent = `${stored.length} of ${chosen.length} uploaded.`;
    if (collection && stored.length) add(collection, stored);
    // Nothing is in it.
    else if (collection) await submit(`/ui/trash/${collection.uuid}`, {});
    else if (stored.length === chosen.length) location.reload();
  };

  chooser.addEventListener("change", () => upload(Array.from(chooser.files)));
  box.addEventListener("dragover", event => { event.preventDefault(); box.classList.add("over"); });
  box.addEventListener("dragleave", () => box.classList.remove("over"));
  box.addEventListener("drop", event => {
    event.preventDefault();
    box.classList.remove("over");
    upload(Array.from(event.dataTransfer.files));
  });
})();
