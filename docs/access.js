// What the theme adds while a page loads, named and reachable by keyboard: copy buttons, and boxes that scroll sideways.
function name_added_parts() {
  document.querySelectorAll("nav.md-code__nav:not([aria-label])").forEach((part, place) => {
    part.setAttribute("aria-label", `Code ${place + 1}`);
  });
  document.querySelectorAll("button.md-code__button:not([aria-label])").forEach((part) => {
    part.setAttribute("aria-label", part.title);
  });
  document.querySelectorAll(".highlight code:not([tabindex]), .md-typeset__scrollwrap:not([tabindex])").forEach((part) => {
    part.setAttribute("tabindex", "0");
  });
}
addEventListener("DOMContentLoaded", () => {
  name_added_parts();
  new MutationObserver(name_added_parts).observe(document.body, { childList: true, subtree: true });
});
