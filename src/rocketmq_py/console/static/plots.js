"use strict";
// Plots of [data-plot] with uPlot and the heat map of [data-heat]; both ask the page's own address for JSON.
const dark = matchMedia("(prefers-color-scheme: dark)").matches;
const ink = dark ? "#ddd" : "#222", grid = dark ? "#444" : "#ddd";
const strokes = dark ? ["#8ab4f8", "#fbbf24", "#4ade80", "#c084fc", "#fb7185", "#22d3ee"]
  : ["#0b57d0", "#b45309", "#15803d", "#9333ea", "#be123c", "#0e7490"];
const LEAST_SECONDS = 60; // the least width of a plot; uPlot makes one of years of a single sample
const clock = (at) => new Date(at * 1000).toISOString().slice(11, 19);
const ask = async (path) => (await fetch(path, { headers: { accept: "application/json" } })).json();
const again = (seconds, work) => setTimeout(() => (document.hidden ? again(seconds, work) : work()), 1000 * seconds);

for (const box of document.querySelectorAll("[data-plot]")) {
  let plot = null;
  const draw = async () => {
    const found = await ask(box.dataset.plot);
    const data = [found.at.map((at) => at / 1000), ...found.series.map((one) => one.values)];
    if (plot && plot.series.length === data.length) plot.setData(data);
    else {
      if (plot) plot.destroy();
      const axis = { stroke: ink, grid: { stroke: grid }, ticks: { stroke: grid } };
      plot = new uPlot({
        width: box.clientWidth, height: 180, tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
        axes: [{ ...axis, space: 90, values: (_, at) => at.map(clock) }, { ...axis, size: 70 }],
        scales: { x: { range: (one, low, high) => [low, one.data[0].length < 2 ? low + LEAST_SECONDS : Math.max(high, low + LEAST_SECONDS)] }, y: { range: (_, low, high) => [0, Math.max(1, high || 0)] } },
        series: [{ label: "UTC", value: (_, at) => (at == null ? "--" : clock(at)) }, ...found.series.map((one, number) => ({ label: one.name, stroke: strokes[number % 6], points: { show: found.at.length < 40 } }))],
      }, data, box);
    }
    box.dataset.samples = String(found.at.length);
    again(found.intervalSeconds, draw);
  };
  draw();
}

const heat = document.querySelector("[data-heat]");
if (heat) {
  let found = null;
  const draw = async () => {
    found = await ask(heat.dataset.heat);
    const columns = Math.max(1, found.at.length), rows = Math.max(1, found.cells.length);
    heat.width = columns; heat.height = rows;
    const picture = heat.getContext("2d").createImageData(columns, rows);
    const lag = (cell) => (cell >= 0 ? cell : -2 - cell);
    const most = Math.log1p(Math.max(1, ...found.cells.map((row) => row.reduce((high, cell) => Math.max(high, lag(cell)), 0))));
    found.cells.forEach((row, y) => row.forEach((cell, x) => {
      const light = Math.round(255 * Math.log1p(Math.max(0, lag(cell))) / most), at = 4 * (y * columns + x);
      picture.data.set(cell === -1 ? [128, 128, 128, 60] : cell < -1 ? [220, 40, 40, 255] : [light, Math.round(30 + 0.65 * light), Math.round(90 - 0.3 * light), 255], at);
    }));
    heat.getContext("2d").putImageData(picture, 0, 0);
    heat.dataset.samples = String(columns);
    again(found.intervalSeconds, draw);
  };
  heat.addEventListener("mousemove", (event) => {
    if (!found || !found.cells.length) return;
    const box = heat.getBoundingClientRect();
    const x = Math.min(found.at.length - 1, Math.floor((event.clientX - box.left) / box.width * found.at.length));
    const y = Math.min(found.cells.length - 1, Math.floor((event.clientY - box.top) / box.height * found.cells.length));
    const queue = found.queues[y], cell = found.cells[y][x];
    document.getElementById("heat-at").textContent =
      `${new Date(found.at[x]).toISOString()} ${queue.topic} ${queue.broker}:${queue.queue} ${cell === -1 ? "?" : cell < -1 ? -2 - cell : cell}`;
  });
  draw();
}
