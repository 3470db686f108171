
(() => {
  "use strict";
  const form = document.getElementById("find");
  const { q: box, only, next, previous } = form.elements;
  const count = document.getElementById("count");
  const log = document.getElementById("lines");
  const rows = [...log.querySelectorAll("li")];
  const painted = "highlights" in CSS ? new Highlight() : null;
  if (painted) {
    CSS.highlights.set("found", painted);
    const sheet = new CSSStyleSheet();
    sheet.replaceSync("::highlight(found) { background: var(--found); color: #000; }");
    document.adoptedStyleSheets = [sheet];
  }
  let texts = null; // of each row, in lower case; made by the first search
  let hits = [];
  let at = -1;

  const parts = (row) => {
    const walk = document.createTreeWalker(row, NodeFilter.SHOW_TEXT, (node) =>
      node.parentElement.closest(".tag, summary") ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT);
    const found = [];
    while (walk.nextNode()) found.push(walk.currentNode);
    return found;
  };
  const textOf = (row) => parts(row).map((node) => node.data).join("").toLowerCase();
  const lineOf = (row) => row.id.slice(row.id.indexOf("-") + 1);
  const off = () => [...document.querySelectorAll("fieldset input:not(:checked)")].map((b) => "." + b.id.replace("lane", "l")).join();

  function open(element) {
    for (let up = element.parentElement; up; up = up.parentElement) if (up.localName === "details") up.open = true;
  }

  function paint(query) {
    if (!painted) return;
    painted.clear();
    for (const row of query ? hits.slice(0, 5000) : [])
      for (const node of parts(row)) {
        const text = node.data.toLowerCase();
        if (text.length !== node.data.length) continue; // places in the one are none in the other
        for (let i = text.indexOf(query); i >= 0; i = text.indexOf(query, i + query.length)) {
          const range = new Range();
          range.setStart(node, i);
          range.setEnd(node, Math.min(i + query.length, node.data.length));
          painted.add(range);
        }
      }
  }

  function say() {
    const total = hits.length === 1 ? "1 line" : `${hits.length} lines`;
    count.value = box.value.trim() === "" ? "" : at < 0 ? total : `${at + 1} of ${total} (line ${lineOf(hits[at])})`;
  }

  function search() {
    const query = box.value.trim().toLowerCase();
    const line = /^:(\d+)$/.exec(query);
    rows.forEach((row) => row.classList.remove("hit", "now"));
    at = -1;
    hits = [];
    if (line) hits = rows.filter((row) => lineOf(row) === line[1]);
    else if (query) {
      texts ??= rows.map(textOf);
      const hidden = off();
      hits = rows.filter((row, i) => texts[i].includes(query) && !(hidden && row.matches(hidden) && !row.matches(".cause")));
    }
    hits.forEach((row) => row.classList.add("hit"));
    log.classList.toggle("only", only.checked && query !== "");
    if (only.checked) hits.forEach(open);
    paint(line ? "" : query);
    say();
  }

  function go(step) {
    if (!hits.length) return;
    if (at >= 0) hits[at].classList.remove("now");
    at = at < 0 && step < 0 ? hits.length - 1 : (at + step + hits.length) % hits.length;
    const row = hits[at];
    open(row);
    row.classList.add("now");
    row.scrollIntoView({ block: "center" });
    say();
  }

  function arrive() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    open(target);
    if (target.localName !== "li") return;
    const lane = /\bl(\d+)\b/.exec(target.className);
    const choice = lane && document.getElementById(`lane${lane[1]}`);
    if (choice) choice.checked = true;
    log.classList.remove("only");
    only.checked = false;
    target.tabIndex = -1;
    target.focus({ preventScroll: true });
    target.scrollIntoView({ block: "center" });
  }

  let waiting = 0;
  box.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(search, rows.length > 3000 ? 200 : 0);
  });
  only.addEventListener("change", search);
  form.addEventListener("submit", (event) => event.preventDefault());
  box.addEventListener("keydown", (event) => {
    if (event.isComposing || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Enter") {
      event.preventDefault();
      clearTimeout(waiting);
      if (at < 0) search();
      go(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape" && box.value) {
      event.preventDefault();
      box.value = "";
      search();
    }
  });
  next.addEventListener("click", () => go(1));
  previous.addEventListener("click", () => go(-1));
  document.querySelectorAll("fieldset input").forEach((input) => input.addEventListener("change", () => box.value && search()));
  window.addEventListener("hashchange", arrive);
  log.addEventListener("mouseover", (event) => {
    const row = event.target.closest("li");
    const lane = row && !row.title && /\bl(\d+)\b/.exec(row.className);
    const choice = lane && document.getElementById(`lane${lane[1]}`);
    if (choice) row.title = choice.parentElement.textContent.trim();
  });

  for (const block of document.querySelectorAll("pre.run")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy the commands below");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(block.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(block);
        button.textContent = "Selected";
      }
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
    const frame = document.createElement("div");
    frame.className = "command";
    block.before(frame);
    frame.append(button, block);
  }

  form.hidden = false;
  if (location.hash) arrive();
})();
