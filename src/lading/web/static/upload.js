// Uploads by the file chooser or by drag, one file after the other, with progress.
"use strict";
(() => {
  const box = document.getElementById("upload");
  if (!box) return;
  const chooser = box.querySelector("input[type=file]"), bar = box.querySelector("progress");
  const said = box.querySelector("[role=status]"), faults = box.querySelector("ul");
  const token = box.querySelector("input[name=form_token]").value;
  let busy = false;
  box.querySelector("form").hidden = false;
  document.getElementById("upload-hidden").hidden = true;

  const words = text => new DOMParser().parseFromString(text, "text/html").body.textContent.trim();
  const send = (file, before, total) => new Promise(done => {
    const call = new XMLHttpRequest();
    call.open("POST", `${box.dataset.place}/upload?path=${encodeURIComponent(file.name)}`);
    call.setRequestHeader("X-Form-Token", token);
    call.setRequestHeader("HX-Request", "true");
    call.setRequestHeader("Content-Type", "application/octet-stream");
    call.upload.addEventListener("progress", event => { bar.value = total ? (before + event.loaded) / total : 1; });
    call.addEventListener("loadend", () => done(call.status === 201 ? "" : words(call.responseText) || "the server did not store it; try again"));
    call.send(file);
  });
  const upload = async chosen => {
    if (busy || !chosen.length) return;
    busy = true;
    bar.hidden = false;
    faults.replaceChildren();
    const total = chosen.reduce((sum, file) => sum + file.size, 0);
    let before = 0, failed = 0;
    for (const [index, file] of chosen.entries()) {
      said.textContent = `Uploading ${index + 1} of ${chosen.length}`;
      const fault = await send(file, before, total);
      before += file.size;
      if (fault) {
        failed += 1;
        const line = document.createElement("li");
        line.className = "fault";
        line.textContent = `${file.name}: ${fault}`;
        faults.append(line);
      }
    }
    busy = false;
    bar.hidden = true;
    chooser.value = "";
    said.textContent = `${chosen.length - failed} of ${chosen.length} uploaded.`;
    if (!failed) location.reload();
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
