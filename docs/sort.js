// Tables in a box of the class "sortable": a click on a heading, or Enter on it, sorts by its column, then the other way.
function sort_table(table, column, heading) {
  const body = table.tBodies[0];
  const down = heading.getAttribute("aria-sort") !== "descending";
  const value = (row) => parseFloat(row.cells[column].textContent);
  const text = (row) => row.cells[column].textContent;
  const rows = [...body.rows].sort((one, other) => {
    const [a, b] = [value(one), value(other)];
    if (column === 0) return (down ? -1 : 1) * text(one).localeCompare(text(other));
    if (isNaN(a) || isNaN(b)) return isNaN(a) - isNaN(b);
    return down ? b - a : a - b;
  });
  table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  body.append(...rows);
}
addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll(".sortable table").forEach((table) => {
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      const button = document.createElement("button");
      button.append(...heading.childNodes);
      button.addEventListener("click", () => sort_table(table, column, heading));
      heading.append(button);
    });
  });
});
