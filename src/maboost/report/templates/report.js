"use strict";
(() => {
  const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

  const valueOf = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.value ?? cell.textContent;
  };

  // Missing values are last in both directions; rows that are equal keep their order.
  const compare = (a, b, numeric, sign) => {
    if (a === "" || b === "") return (a === "") - (b === "");
    return sign * (numeric ? Number(a) - Number(b) : collator.compare(a, b));
  };

  const sortBy = (table, column, direction) => {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[column].setAttribute("aria-sort", direction);
    const body = table.tBodies[0];
    const numeric = heads[column].classList.contains("number");
    const sign = direction === "ascending" ? 1 : -1;
    const keyed = [...body.rows].map((row) => [valueOf(row, column), row]);
    keyed.sort((a, b) => compare(a[0], b[0], numeric, sign));
    body.append(...keyed.map((pair) => pair[1]));
  };

  const addSorting = (table) => {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") === "ascending";
        sortBy(table, column, up ? "descending" : "ascending");
      });
    });
  };

  const addFilter = (table) => {
    const form = document.querySelector(`form[data-for="${table.id}"]`);
    const [search, only] = form.querySelectorAll("input");
    const output = form.querySelector("output");
    const rows = [...table.tBodies[0].rows];
    const texts = new Map(
      rows.map((row) => [row, [...row.cells].map((c) => c.textContent).join("\n").toLowerCase()])
    );
    const apply = () => {
      const wanted = search.value.trim().toLowerCase();
      let shown = 0;
      for (const row of rows) {
        const flagged = !only || !only.checked || "flag" in row.dataset;
        row.hidden = !(flagged && texts.get(row).includes(wanted));
        shown += !row.hidden;
      }
      output.textContent = `${shown} of ${rows.length} rows`;
    };
    form.addEventListener("input", apply);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.hidden = false;
    form.reset();
    apply();
  };

  // Pointing at a chart, or the arrow keys on it, tells the values there.
  const addReadout = (chart) => {
    const svg = chart.querySelector("svg[data-readout]");
    const { places, names, labels, values } = JSON.parse(svg.dataset.readout);
    const cursor = document.createElementNS("http://www.w3.org/2000/svg", "path");
    const readout = document.createElement("p");
    cursor.setAttribute("class", "line thin c0 cursor");
    readout.className = "readout";
    readout.setAttribute("aria-live", "polite");
    svg.append(cursor);
    svg.setAttribute("tabindex", "0");
    chart.append(readout);
    let at = places.length - 1;

    const show = (index) => {
      at = Math.min(Math.max(index, 0), places.length - 1);
      const said = labels.map((label, i) => [label, values[i][at]]).filter((pair) => pair[1] !== "–");
      readout.textContent = `${names[at]}: ${said.map((pair) => pair.join(" ")).join("; ")}`;
      cursor.setAttribute("d", `M${places[at]} 0V1000`);
    };
    const clear = () => {
      readout.textContent = "";
      cursor.removeAttribute("d");
    };
    const nearest = (x) => {
      const distances = places.map((place) => Math.abs(place - x));
      return distances.indexOf(Math.min(...distances));
    };
    const keys = { ArrowLeft: () => at - 1, ArrowRight: () => at + 1, Home: () => 0, End: () => places.length - 1 };

    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      show(nearest((1000 * (event.clientX - box.left)) / box.width));
    });
    svg.addEventListener("pointerleave", clear);
    svg.addEventListener("focus", () => show(at));
    svg.addEventListener("blur", clear);
    svg.addEventListener("keydown", (event) => {
      if (!(event.key in keys)) return;
      event.preventDefault();
      show(keys[event.key]());
    });
  };

  document.querySelectorAll(".chart").forEach(addReadout);
  for (const table of document.querySelectorAll("table.sortable")) {
    addSorting(table);
    addFilter(table);
  }
})();
