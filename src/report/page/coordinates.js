// The interactive plot: parallel coordinates with values that filter. All other plots are static.
const MOST_LINES = 250, MOST_ROWS = 25, HEIGHT = 330, TOP = 34, BOTTOM = 24;
// Pixels of an upright axis, of a level one, of a letter, and what a name or value has on both sides.
const UPRIGHT = 76, LEVEL = 44, LETTER = 7, ASIDE = 8;

// Positions in the plot. Axes are upright, beside each other, where there is room for them, else level, below each
// other. A share is a place on an axis, from 0 to 1.
function layoutOf(family, room) {
  const axes = family.parameters.length + 1;
  if (axes * UPRIGHT <= room) {
    const x = (axis) => 38 + axis * (room - 84) / Math.max(1, axes - 1);
    return {
      width: room, height: HEIGHT, upright: true,
      at: (axis, share, aside = 0) => [x(axis), HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share + aside],
      name: (axis) => ({ x: x(axis), y: axis % 2 ? 10 : 22, "text-anchor": "middle" }),
    };
  }
  const most = (text) => Math.max(0, ...family.parameters.map((parameter) => text(parameter).length));
  // Half of the widest value at an end.
  const half = (index) => Math.min(room / 6, most((parameter) => parameter.values.at(index)) * LETTER / 2 + ASIDE);
  const left = most((parameter) => parameter.name) * (LETTER + 1) + half(0), right = room - half(-1);
  return {
    width: room, height: axes * LEVEL + ASIDE, upright: false,
    at: (axis, share, aside = 0) => [left + (right - left) * share + aside, axis * LEVEL + LEVEL / 2],
    name: (axis) => ({ x: 0, y: axis * LEVEL + LEVEL / 2 + 4, "text-anchor": "start" }),
  };
}
const path = (points) => "M" + points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L");

const figures = (value) => Number(value.toPrecision(4)).toString();

function begin(box) {
  const data = JSON.parse(box.querySelector("script").textContent);
  const find = (selector) => box.querySelector(selector);
  const state = { family: 0, chosen: new Map(), share: 0 };
  const controls = find(".controls"), drawing = find(".lines"), table = find(".fastest");
  const best = Math.max(0, ...data.families.map((f) => f.rows.reduce((m, row) => Math.max(m, row[1]), 0)));

  const buttons = data.families.map((family, index) => {
    const button = html("button", `${family.name} (${family.rows.length})`);
    button.addEventListener("click", () => { state.family = index; state.chosen.clear(); draw(); });
    return button;
  });
  const slider = document.createElement("input");
  Object.assign(slider, { type: "range", min: 0, max: 99, value: 0 });
  slider.setAttribute("aria-label", "least share of the best rate, in per cent");
  const said = html("span", "");
  slider.addEventListener("input", () => { state.share = Number(slider.value); draw(); });
  const reset = html("button", "show all");
  reset.addEventListener("click", () => { state.chosen.clear(); state.share = 0; slider.value = 0; draw(); });
  controls.append(...buttons, slider, said, reset);

  const matching = (family) => family.rows.filter(([values, rate]) => {
    if (state.share > 0 && rate < best * state.share / 100) return false;
    for (const [axis, set] of state.chosen) if (!set.has(parseInt(values[axis], 36))) return false;
    return true;
  });

  function toggle(axis, value) {
    const set = state.chosen.get(axis) ?? new Set();
    if (!set.delete(value)) set.add(value);
    if (set.size) state.chosen.set(axis, set); else state.chosen.delete(axis);
    draw();
    find(`[data-axis="${axis}"][data-value="${value}"]`)?.focus({ preventScroll: true });
  }

  function draw() {
    const family = data.families[state.family];
    const rows = matching(family).sort((a, b) => b[1] - a[1]);
    const right = rows.filter((row) => row[1] > 0);
    const shown = right.slice(0, MOST_LINES);
    buttons.forEach((button, index) => button.setAttribute("aria-pressed", index === state.family));
    said.textContent = state.share ? `at least ${state.share} % of the best` : "any rate";
    find(".count").textContent = `${rows.length} of ${family.rows.length} configurations match, ` +
      `${right.length} of them correct` +
      (right.length > shown.length ? `; the fastest ${shown.length} are drawn` : "");

    const axes = family.parameters.length + 1, layout = layoutOf(family, box.clientWidth);
    const share = (axis, value) => {
      const count = family.parameters[axis].values.length;
      return count > 1 ? value / (count - 1) : 0.5;
    };
    // The last axis spans the drawn rates only; otherwise the fastest ones would coincide.
    const [low, high] = shown.length ? [shown[shown.length - 1][1], shown[0][1]] : [0, best];
    const rate = (value) => high > low ? (value - low) / (high - low) : 0.5;
    drawing.replaceChildren();
    const { width, height } = layout;
    for (const [key, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) drawing.setAttribute(key, value);
    for (let axis = 0; axis < axes; axis++)
      drawing.append(svg("path", { class: "grid", d: path([layout.at(axis, 0), layout.at(axis, 1)]) }));
    // Draws the fastest last, on top. A hash of the row separates lines with the same value.
    for (let index = shown.length - 1; index >= 0; index--) {
      const [values, value] = shown[index];
      const aside = ((index * 2654435761) % 997 / 997 - 0.5) * 14;
      const points = [...values].map((digit, axis) => layout.at(axis, share(axis, parseInt(digit, 36)), aside));
      points.push(layout.at(axes - 1, rate(value)));
      const slow = Math.round(100 * index / Math.max(1, shown.length - 1));
      drawing.append(svg("path", {
        class: index ? "configuration" : "configuration first", d: path(points),
        style: `stroke: color-mix(in oklab, var(--s1) ${slow}%, var(--s0))`,
      }));
    }
    family.parameters.forEach((parameter, axis) => {
      drawing.append(svg("text", { class: "name", ...layout.name(axis) }, parameter.name));
      const set = state.chosen.get(axis);
      parameter.values.forEach((value, index) => {
        const wide = Math.max(22, value.length * LETTER + ASIDE), [x, y] = layout.at(axis, share(axis, index));
        const group = svg("g", {
          class: "value", role: "button", tabindex: 0, "data-axis": axis, "data-value": index,
          "aria-pressed": Boolean(set?.has(index)), "aria-label": `${parameter.name}=${value}`,
        });
        group.append(svg("rect", { x: x - wide / 2, y: y - 9, width: wide, height: 18, rx: 5 }),
          svg("text", { x, y: y + 4 }, value));
        group.addEventListener("click", () => toggle(axis, index));
        group.addEventListener("keydown", (event) => {
          if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(axis, index); }
        });
        drawing.append(group);
      });
    });
    const end = layout.name(axes - 1);
    if (layout.upright) Object.assign(end, { x: width - 2, "text-anchor": "end" });
    drawing.append(svg("text", { class: "name", ...end }, data.rate));
    for (const part of high > low ? [0, 0.25, 0.5, 0.75, 1] : [0]) {
      const value = low + (high - low) * part, [x, y] = layout.at(axes - 1, rate(value));
      drawing.append(layout.upright
        ? svg("text", { x: x + 6, y: y + 4 }, figures(value))
        : svg("text", { x, y: y + 16, "text-anchor": "middle" }, figures(value)));
    }

    // Parameters with one value in all these rows stand above the table.
    const listed = right.slice(0, MOST_ROWS);
    const text = ([values], axis) => family.parameters[axis].values[parseInt(values[axis], 36)];
    const all = family.parameters.map((_, axis) => axis);
    const same = all.filter((axis) => listed.every((row) => text(row, axis) === text(listed[0], axis)));
    const different = all.filter((axis) => !same.includes(axis));
    find(".same").textContent = listed.length && same.length
      ? `The fastest ${listed.length}, all with ${same.map((axis) => `${family.parameters[axis].name}=${text(listed[0], axis)}`).join(" ")}:`
      : "";
    const head = html("thead"), heads = html("tr"), body = html("tbody");
    head.append(heads);
    for (const name of ["rank", data.rate, ...different.map((axis) => family.parameters[axis].name)]) heads.append(html("th", name));
    const lines = listed.map((entry, index) => {
      const row = html("tr");
      const cells = [String(index + 1), figures(entry[1]), ...different.map((axis) => text(entry, axis))];
      for (const cell of cells) row.append(html("td", cell));
      return row;
    });
    body.append(...lines);
    table.replaceChildren(head, body);
    sortable(table);
    overlay(rows.length < family.rows.length ? right : []);
  }

  // Matching configurations, drawn over the distribution of all.
  function overlay(rows) {
    const over = box.closest("details").querySelector('[data-plot="distribution"] .over');
    const { low, high, count, most, left, right, top, bottom } = data.bins;
    const bins = new Array(count).fill(0);
    for (const [, rate] of rows) bins[Math.min(count - 1, Math.floor((rate - low) / (high - low) * count))]++;
    const wide = (right - left) / count;
    over.replaceChildren(...bins.flatMap((n, bin) => n ? [svg("rect", {
      x: left + bin * wide, width: Math.max(0.5, wide - 0.6),
      y: bottom - (bottom - top) * n / most, height: (bottom - top) * n / most,
    })] : []));
  }

  draw();
  let width = box.clientWidth;
  new ResizeObserver(() => {
    if (Math.abs(box.clientWidth - width) > 8) { width = box.clientWidth; draw(); }
  }).observe(box);
}

for (const section of document.querySelectorAll(".case > details")) {
  const box = section.querySelector(".coordinates");
  if (!box) continue;
  let begun = false;
  const start = () => { if (section.open && !begun) { begun = true; begin(box); } };
  section.addEventListener("toggle", start);
  start();
}
// A link to a problem opens its section.
function reveal() {
  const section = location.hash ? document.querySelector(`.case[id="${CSS.escape(location.hash.slice(1))}"] > details`) : null;
  if (section) { section.open = true; section.scrollIntoView(); }
}
addEventListener("hashchange", reveal);
reveal();
