"use strict";
// The interactive plot: parallel coordinates with values that filter. All other plots are static.
const MOST_LINES = 250, MOST_ROWS = 10, HEIGHT = 330, TOP = 34, BOTTOM = 24;

const svg = (name, attributes, text) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
};
const html = (name, text, className) => {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
};
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

    const axes = family.parameters.length + 1;
    const width = Math.max(box.clientWidth, axes * 76);
    const x = (axis) => 38 + axis * (width - 84) / Math.max(1, axes - 1);
    const y = (axis, value) => {
      const count = family.parameters[axis].values.length;
      return TOP + (HEIGHT - TOP - BOTTOM) * (count > 1 ? 1 - value / (count - 1) : 0.5);
    };
    // The last axis spans the drawn rates only; otherwise the fastest ones would coincide.
    const [low, high] = shown.length ? [shown[shown.length - 1][1], shown[0][1]] : [0, best];
    const rate = (value) => HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (high > low ? (value - low) / (high - low) : 0.5);
    drawing.replaceChildren();
    for (const [key, value] of Object.entries({ width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}` })) drawing.setAttribute(key, value);
    for (let axis = 0; axis < axes; axis++)
      drawing.append(svg("path", { class: "grid", d: `M${x(axis)} ${TOP}V${HEIGHT - BOTTOM}` }));
    // Draws the fastest last, on top. A hash of the row separates lines with the same value.
    for (let index = shown.length - 1; index >= 0; index--) {
      const [values, value] = shown[index];
      const aside = ((index * 2654435761) % 997 / 997 - 0.5) * 14;
      const points = [...values].map((digit, axis) => `${x(axis).toFixed(1)} ${(y(axis, parseInt(digit, 36)) + aside).toFixed(1)}`);
      points.push(`${x(axes - 1).toFixed(1)} ${rate(value).toFixed(1)}`);
      const slow = Math.round(100 * index / Math.max(1, shown.length - 1));
      drawing.append(svg("path", {
        class: index ? "configuration" : "configuration first", d: "M" + points.join("L"),
        style: `stroke: color-mix(in oklab, var(--s1) ${slow}%, var(--s0))`,
      }));
    }
    family.parameters.forEach((parameter, axis) => {
      drawing.append(svg("text", { class: "name", x: x(axis), y: axis % 2 ? 10 : 22 }, parameter.name));
      const set = state.chosen.get(axis);
      parameter.values.forEach((value, index) => {
        const wide = Math.max(22, value.length * 7 + 8), at = y(axis, index);
        const group = svg("g", {
          class: "value", role: "button", tabindex: 0, "data-axis": axis, "data-value": index,
          "aria-pressed": Boolean(set?.has(index)), "aria-label": `${parameter.name}=${value}`,
        });
        group.append(svg("rect", { x: x(axis) - wide / 2, y: at - 9, width: wide, height: 18, rx: 5 }),
          svg("text", { x: x(axis), y: at + 4 }, value));
        group.addEventListener("click", () => toggle(axis, index));
        group.addEventListener("keydown", (event) => {
          if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(axis, index); }
        });
        drawing.append(group);
      });
    });
    drawing.append(svg("text", { class: "name rate", x: width - 2, y: (axes - 1) % 2 ? 10 : 22 }, data.rate));
    for (const share of high > low ? [0, 0.25, 0.5, 0.75, 1] : [0]) {
      const value = low + (high - low) * share;
      drawing.append(svg("text", { x: x(axes - 1) + 6, y: rate(value) + 4 }, figures(value)));
    }

    const head = html("tr");
    for (const name of ["", data.rate, ...family.parameters.map((p) => p.name)]) head.append(html("th", name));
    const lines = right.slice(0, MOST_ROWS).map(([values, value], index) => {
      const row = html("tr");
      const cells = [String(index + 1), figures(value), ...[...values].map((digit, axis) => family.parameters[axis].values[parseInt(digit, 36)])];
      for (const cell of cells) row.append(html("td", cell));
      return row;
    });
    table.replaceChildren(head, ...lines);
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
