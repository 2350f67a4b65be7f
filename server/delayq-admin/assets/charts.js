// The charts of a type, drawn by uPlot from the numbers in `data-figures`.
(() => {
  "use strict";

  let charts = [];
  let drawn = null;

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const span = (seconds) => {
    if (seconds === null || seconds === undefined) return "–";
    if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
    if (seconds < 60) return `${+seconds.toFixed(1)} s`;
    if (seconds < 3600) return `${+(seconds / 60).toFixed(1)} min`;
    return `${+(seconds / 3600).toFixed(1)} h`;
  };
  // The ends of buckets, so bounds and not values; the last bucket has none.
  const LAST = 4194.304;
  const bound = (seconds) => {
    if (seconds === null || seconds === undefined) return "–";
    return seconds > LAST ? `≥${span(LAST)}` : `<${span(seconds)}`;
  };
  const count = (number) => (number === null || number === undefined ? "–" : number.toLocaleString("en"));
  const short = (number) => {
    if (number >= 1e6) return `${+(number / 1e6).toFixed(1)}M`;
    if (number >= 1e3) return `${+(number / 1e3).toFixed(1)}k`;
    return String(+number.toFixed(2));
  };

  const kinds = {
    rate: {
      series: [["done", "done", "--good-line"], ["failed", "failed", "--bad-line"]],
      value: count, axis: short,
    },
    late: {
      series: [["p50", "late_p50", "--accent"], ["p99", "late_p99", "--warn-line"]],
      value: bound, axis: span,
    },
    run: {
      series: [["mean", "run_mean", "--accent"], ["longest", "run_longest", "--warn-line"]],
      value: span, axis: span,
    },
  };

  const clock = (time) => {
    const date = new Date(time * 1000);
    const two = (number) => String(number).padStart(2, "0");
    return `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}`;
  };
  const local = (time) => {
    const date = new Date(time * 1000);
    if (date.getTimezoneOffset() === 0) return "";
    const two = (number) => String(number).padStart(2, "0");
    return ` (${two(date.getHours())}:${two(date.getMinutes())} local)`;
  };
  const day = (time) => new Date(time * 1000).toISOString().slice(5, 10);

  const alone = (plot, series) => {
    const values = plot.data[series];
    const isKnown = (at) => values[at] !== null && values[at] !== undefined;
    return values.flatMap((_, at) => (isKnown(at) && !isKnown(at - 1) && !isKnown(at + 1) ? [at] : []));
  };

  // Without a cursor the legend has the latest values that are known.
  const latest = (plot) => {
    const isKnown = (at) => plot.data.slice(1).some((values) => values[at] !== null && values[at] !== undefined);
    let at = plot.data[0].length - 1;
    while (at > 0 && !isKnown(at)) at -= 1;
    return at;
  };
  const restLegend = (plot) => {
    if (plot.cursor.idx === null || plot.cursor.idx === undefined) plot.setLegend({ idx: latest(plot) }, false);
  };

  const options = (place, kind, unit) => {
    const line = color("--line");
    const ink = color("--dim");
    const font = "11px ui-monospace, SFMono-Regular, Menlo, monospace";
    const time = unit === "h" ? day : clock;
    const grid = { stroke: line, width: 1 };
    const series = kind.series.map(([label, , name], nth) => ({
      label,
      stroke: color(name),
      width: 1.5,
      fill: nth === 0 ? `${color(name)}22` : undefined,
      spanGaps: false,
      // A value between two that are not known has no line: it is a point.
      points: { show: true, size: 5, fill: color(name), filter: alone },
      value: (_, value) => kind.value(value),
    }));
    return {
      width: place.clientWidth,
      height: 160,
      tzDate: (time) => uPlot.tzDate(new Date(time * 1e3), "Etc/UTC"),
      cursor: { drag: { x: false, y: false }, points: { size: 6 } },
      legend: { live: true },
      hooks: { ready: [restLegend], setData: [restLegend], setCursor: [restLegend] },
      scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [
        { stroke: ink, font, grid: { show: false }, ticks: grid, space: 70, size: 30, values: (_, at) => at.map(time) },
        { stroke: ink, font, grid, ticks: { show: false }, size: 58, values: (_, at) => at.map(kind.axis) },
      ],
      series: [{ label: "UTC", value: (_, value) => (value ? `${day(value)} ${clock(value)}${local(value)}` : "–") }, ...series],
    };
  };

  const draw = () => {
    const json = document.getElementById("figures")?.dataset.figures;
    const places = [...document.querySelectorAll(".chart[data-chart]")];
    if (!json || places.length === 0 || !window.uPlot) {
      charts.forEach((chart) => chart.plot.destroy());
      charts = [];
      drawn = null;
      return;
    }
    if (json === drawn && charts.every((chart) => chart.place.isConnected)) return;
    drawn = json;
    const figures = JSON.parse(json);
    const kept = charts.length > 0 && charts.every((chart) => chart.place.isConnected && chart.unit === figures.unit);
    const data = (kind) => [figures.at, ...kind.series.map(([, name]) => figures[name])];
    if (kept) {
      charts.forEach((chart) => chart.plot.setData(data(chart.kind)));
      return;
    }
    charts.forEach((chart) => chart.plot.destroy());
    charts = places.map((place) => {
      const kind = kinds[place.dataset.chart];
      const plot = new uPlot(options(place, kind, figures.unit), data(kind), place);
      return { place, kind, plot, unit: figures.unit };
    });
  };

  const redraw = () => {
    charts.forEach((chart) => chart.plot.destroy());
    charts = [];
    drawn = null;
    draw();
  };

  let later = 0;
  window.addEventListener("resize", () => {
    clearTimeout(later);
    later = setTimeout(() => charts.forEach((chart) =>
      chart.plot.setSize({ width: chart.place.clientWidth, height: 160 })), 100);
  });

  window.delayqCharts = { draw, redraw };
})();
