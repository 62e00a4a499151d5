"use strict";
const data = JSON.parse(document.getElementById("pairs").textContent);
const key = "eqben-review:" + data.source;
const at = (id) => document.getElementById(id);
let votes = {};
let shown = [];
let position = 0;
let blinking = false;
const undone = [];

function load() {
  try {
    votes = JSON.parse(localStorage.getItem(key) || "{}");
  } catch {
    at("storage").hidden = false;
  }
}

function save() {
  try {
    localStorage.setItem(key, JSON.stringify(votes));
  } catch {
    at("storage").hidden = false;
  }
}

/* Words of one caption that the other lacks, by longest common subsequence. */
function marked(words, others) {
  const n = words.length, m = others.length;
  const best = Array.from({ length: n + 1 }, () => new Uint16Array(m + 1));
  for (let i = n - 1; i >= 0; i--)
    for (let j = m - 1; j >= 0; j--)
      best[i][j] = words[i] === others[j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
  const own = new Array(n).fill(true);
  for (let i = 0, j = 0; i < n && j < m; )
    if (words[i] === others[j]) { own[i] = false; i++; j++; }
    else if (best[i + 1][j] >= best[i][j + 1]) i++;
    else j++;
  return own;
}

function caption(place, text, other) {
  const words = text.split(/\s+/), own = marked(words, other.split(/\s+/));
  place.replaceChildren();
  words.forEach((word, k) => {
    if (k) place.append(" ");
    if (!own[k]) place.append(word);
    else {
      const mark = document.createElement("mark");
      mark.textContent = word;
      place.append(mark);
    }
  });
}

function choose() {
  const filter = at("filter").value;
  shown = data.pairs.filter((pair) => {
    const vote = (votes[pair.id] || {}).vote;
    return filter === "all" || (filter === "undecided" ? !vote : vote === filter);
  });
}

function show() {
  const decided = data.pairs.filter((pair) => votes[pair.id] && votes[pair.id].vote).length;
  const rejected = data.pairs.filter((pair) => (votes[pair.id] || {}).vote === "reject").length;
  at("progress").value = decided;
  at("count").textContent = `${decided} of ${data.pairs.length} decided, ${rejected} rejected`;
  const none = !shown.length;
  at("pair").hidden = none;
  at("nothing").hidden = !none;
  for (const id of ["accept", "reject", "note"]) at(id).disabled = none;
  at("where").textContent = none ? "" : `${position + 1} / ${shown.length}`;
  if (none) return;
  position = Math.min(Math.max(position, 0), shown.length - 1);
  const pair = shown[position], vote = votes[pair.id] || {};
  at("where").textContent = `${position + 1} / ${shown.length}`;
  for (const k of [0, 1]) {
    const image = at("image" + k);
    const source = pair.images[blinking ? 1 - k : k];
    if (image.getAttribute("src") !== source) image.setAttribute("src", source);
    image.classList.toggle("blink", blinking);
    image.alt = `picture ${k}`;
    caption(at("caption" + k), pair.captions[k], pair.captions[1 - k]);
  }
  at("name").textContent = pair.name;
  at("accept").setAttribute("aria-pressed", String(vote.vote === "accept"));
  at("reject").setAttribute("aria-pressed", String(vote.vote === "reject"));
  at("note").value = vote.note || "";
  const next = shown[position + 1];
  if (next) for (const source of next.images) new Image().src = source;
}

function go(step) {
  position = Math.min(Math.max(position + step, 0), Math.max(shown.length - 1, 0));
  blinking = false;
  show();
}

function cast(vote) {
  if (!shown.length) return;
  const pair = shown[position];
  undone.push([pair.id, votes[pair.id]]);
  votes[pair.id] = { ...votes[pair.id], vote };
  save();
  if (at("filter").value === "undecided") {
    choose();
    blinking = false;
    show();
  } else if (position + 1 < shown.length) go(1);
  else show();
}

function undo() {
  const last = undone.pop();
  if (!last) return;
  if (last[1]) votes[last[0]] = last[1];
  else delete votes[last[0]];
  save();
  choose();
  const found = shown.findIndex((pair) => pair.id === last[0]);
  if (found >= 0) position = found;
  show();
}

function note() {
  if (!shown.length) return;
  const pair = shown[position], text = at("note").value.trim();
  votes[pair.id] = { ...votes[pair.id], note: text };
  if (!text) delete votes[pair.id].note;
  if (!Object.keys(votes[pair.id]).length) delete votes[pair.id];
  save();
}

function exported() {
  return {
    schema: "eqben-votes/1", source: data.source, reviewer: at("reviewer").value.trim(),
    pairs: data.pairs.length, votes,
  };
}

function download() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(exported(), null, 1) + "\n"], { type: "application/json" }));
  link.download = "votes.json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

async function take(file) {
  try {
    const given = JSON.parse(await file.text());
    if (given.schema !== "eqben-votes/1" || given.source !== data.source) throw new Error("votes of other pairs");
    const known = new Set(data.pairs.map((pair) => pair.id));
    for (const [id, vote] of Object.entries(given.votes)) if (known.has(id)) votes[id] = vote;
    if (given.reviewer) at("reviewer").value = given.reviewer;
    save();
    choose();
    show();
  } catch (error) {
    at("problem").textContent = `${file.name} was not taken: ${error.message}`;
    at("problem").hidden = false;
  }
}

const actions = {
  a: () => cast("accept"), r: () => cast("reject"), u: undo,
  ArrowRight: () => go(1), ArrowLeft: () => go(-1), j: () => go(1), k: () => go(-1),
  " ": () => { blinking = !blinking; show(); },
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target === at("note") || event.target === at("reviewer")) {
    if (event.key === "Enter" || event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "n") { event.preventDefault(); at("note").focus(); return; }
  if (event.key === " " && event.target instanceof HTMLButtonElement) return;
  if (event.target instanceof HTMLSelectElement) return;
  const action = actions[event.key];
  if (action) { event.preventDefault(); action(); }
});
at("accept").addEventListener("click", () => cast("accept"));
at("reject").addEventListener("click", () => cast("reject"));
at("previous").addEventListener("click", () => go(-1));
at("next").addEventListener("click", () => go(1));
at("blink").addEventListener("click", () => { blinking = !blinking; show(); });
at("export").addEventListener("click", download);
at("import").addEventListener("change", (event) => { if (event.target.files[0]) take(event.target.files[0]); });
at("note").addEventListener("change", note);
at("filter").addEventListener("change", () => { position = 0; choose(); show(); });
/* After the mouse, the space bar must swap pictures, not press the button again and vote on the next pair. */
document.addEventListener("click", (event) => {
  if (event.detail > 0 && event.target instanceof HTMLButtonElement) event.target.blur();
});
load();
choose();
const first = shown.findIndex((pair) => !(votes[pair.id] || {}).vote);
if (first > 0) position = first;
show();
