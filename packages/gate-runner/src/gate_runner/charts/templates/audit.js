(() => {
"use strict";
const bar = document.getElementById("audit"), about = bar.dataset;
const other = document.getElementById("other"), progress = document.getElementById("progress");
const cards = [...document.querySelectorAll("article.suspect")];
const choices = new Map();  // place of a card -> {decision, correction}
const memory = "gate-runner audit " + about.benchmark + " " + about.sha256;
const words = {
  accept: (card) => "accepted: " + card.dataset.prediction,
  reject: (card) => "rejected: " + card.dataset.label + " is right",
  other: (card, choice) => "corrected: " + choice.correction,
  drop: () => "left out",
};
const styles = {accept: "accepted", other: "accepted", reject: "rejected", drop: "dropped"};
let current = 0;

function stored() {
  try { return JSON.parse(localStorage.getItem(memory) || "{}"); } catch { return {}; }
}

function keep() {
  const rows = {};
  for (const [place, choice] of choices) rows[cards[place].dataset.file] = choice;
  try { localStorage.setItem(memory, JSON.stringify(rows)); } catch { /* the page works without */ }
}

function show(place) {
  const card = cards[place], choice = choices.get(place);
  card.classList.remove("accepted", "rejected", "dropped");
  if (choice) card.classList.add(styles[choice.decision]);
  card.querySelector(".verdict").textContent = choice ? words[choice.decision](card, choice) : "";
}

function tally() {
  let hits = Number(about.hits), images = Number(about.images), wrong = 0;
  for (const [place, choice] of choices) {
    if (choice.decision !== "reject") wrong += 1;
    if (choice.decision === "drop") images -= 1;
    else if (choice.correction === cards[place].dataset.prediction) hits += 1;
  }
  progress.textContent = choices.size + " of " + cards.length + " decided, " + wrong + " labels wrong; accuracy " +
    (images ? (hits / images).toFixed(3) : "undefined") + " by these decisions";
}

function go(place) {
  if (!cards.length) return;
  cards[current].classList.remove("current");
  current = Math.max(0, Math.min(cards.length - 1, place));
  cards[current].classList.add("current");
  cards[current].focus({preventScroll: true});
  cards[current].scrollIntoView({block: "nearest"});
  const choice = choices.get(current);
  other.value = choice && choice.decision === "other" ? choice.correction : "";
}

function decide(place, decision, correction) {
  if (decision === "undo") choices.delete(place);
  else choices.set(place, {decision, correction});
  show(place);
  tally();
  keep();
  if (decision === "undo") return go(place);
  let next = place;
  do next += 1; while (next < cards.length && choices.has(next));
  go(next < cards.length ? next : place);
}

function choose(place, decision) {
  const card = cards[place].dataset;
  decide(place, decision, {accept: card.prediction, reject: card.label}[decision] || "");
}

function cell(text) { return '"' + String(text).replaceAll('"', '""') + '"'; }

function save() {
  const rows = [["benchmark", "data_sha256", "file", "label", "decision", "correction"]];
  for (const place of [...choices.keys()].sort((first, second) => first - second)) {
    const choice = choices.get(place), card = cards[place].dataset;
    rows.push([about.benchmark, about.sha256, card.file, card.label, choice.decision, choice.correction]);
  }
  const table = rows.map((row) => row.map(cell).join(",") + "\n").join("");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([table], {type: "text/csv"}));
  link.download = about.save;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const keys = {
  a: () => choose(current, "accept"), r: () => choose(current, "reject"), x: () => choose(current, "drop"),
  u: () => decide(current, "undo"), o: () => other.focus(),
  j: () => go(current + 1), ArrowRight: () => go(current + 1), ArrowDown: () => go(current + 1),
  k: () => go(current - 1), ArrowLeft: () => go(current - 1), ArrowUp: () => go(current - 1),
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target === other || !cards.length) return;
  const act = Object.hasOwn(keys, event.key) ? keys[event.key] : null;
  if (act) { event.preventDefault(); act(); }
});
other.addEventListener("change", () => {
  const correction = other.value, card = cards[current] && cards[current].dataset;
  if (!correction || !card) return;
  const decision = {[card.prediction]: "accept", [card.label]: "reject"}[correction] || "other";
  decide(current, decision, correction);
});
cards.forEach((card, place) => {
  card.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) choose(place, button.dataset.choice); else go(place);
  });
});
document.getElementById("save").addEventListener("click", save);

const before = stored();
cards.forEach((card, place) => {
  const choice = Object.hasOwn(before, card.dataset.file) ? before[card.dataset.file] : null;
  if (choice && Object.hasOwn(words, choice.decision)) {
    choices.set(place, {decision: choice.decision, correction: String(choice.correction)});
    show(place);
  }
});
tally();
const first = cards.findIndex((card, place) => !choices.has(place));
if (cards.length) {
  current = Math.max(0, first);
  cards[current].classList.add("current");
}
})();
