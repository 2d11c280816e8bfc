"use strict";
(() => {
  const root = document.documentElement;
  let data = {};
  let plotlyReady = null;
  let watcher = null;

  /* plotly.js lies in the page, packed. */
  function loadPlotly() {
    plotlyReady ??= (async () => {
      const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (c) => c.charCodeAt(0));
      const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
      const script = document.createElement("script");
      script.textContent = await new Response(stream).text();
      document.head.append(script);
    })();
    return plotlyReady;
  }

  /* Colours of the page, for figures. */
  function themed(layout) {
    const style = getComputedStyle(document.body);
    const of = (name) => style.getPropertyValue(name).trim();
    const axis = { gridcolor: of("--grid"), linecolor: of("--line"), tickcolor: of("--line") };
    return {
      ...layout,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: style.fontFamily, size: 12, color: of("--ink") },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: of("--soft"), activecolor: of("--accent") },
      hoverlabel: { bgcolor: of("--card"), bordercolor: of("--line"), font: { color: of("--ink") }, align: "left" },
      xaxis: { ...layout.xaxis, ...axis },
      yaxis: { ...layout.yaxis, ...axis },
    };
  }

  const OPTIONS = {
    displaylogo: false, responsive: true, displayModeBar: "hover",
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
  };
  const SHAPES = [
    '<circle cx="8" cy="8" r="6"/>', '<rect x="2" y="2" width="12" height="12"/>',
    '<path d="M8 1l7 7-7 7-7-7z"/>', '<path d="M8 2l7 12H1z"/>', '<path d="M8 14L1 2h14z"/>',
    '<path d="M6 1h4v5h5v4h-5v5H6v-5H1V6h5z"/>',
  ];

  function drawLegend(figure, chart) {
    const legend = figure.querySelector(".legend");
    for (const entry of chart.legend) {
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      button.innerHTML = `<svg viewBox="0 0 16 16" aria-hidden="true" fill="${entry.colour}">${SHAPES[entry.symbol % SHAPES.length]}</svg>`;
      button.append(entry.name);
      button.dataset.name = entry.name;
      button.title = "Press to show or hide; press twice to see it alone";
      button.addEventListener("click", () => toggle(figure, entry.name));
      button.addEventListener("dblclick", () => isolate(figure, entry.name));
      legend.append(button);
    }
  }

  /* A condition is a name: of a button, and of traces in every panel. */
  function show(figure) {
    for (const button of figure.querySelectorAll(".legend button")) {
      button.setAttribute("aria-pressed", String(!figure.hiddenNames.has(button.dataset.name)));
      button.classList.toggle("alone", figure.alone === button.dataset.name);
    }
    for (const panel of figure.querySelectorAll(".panel")) {
      if (!panel.data) continue;
      const belongs = (trace, name) => trace.meta === name || String(trace.meta).startsWith(name + ", ") ||
        name.startsWith(trace.meta + ", ");
      const known = [...figure.querySelectorAll(".legend button")].map((b) => b.dataset.name);
      const visible = panel.data.map((t) => !figure.hiddenNames.has(t.meta));
      const opacity = panel.data.map((t) =>
        !figure.alone || !known.some((n) => belongs(t, n)) || belongs(t, figure.alone) ? 1 : 0.1);
      Plotly.restyle(panel, { visible, opacity });
    }
  }

  function toggle(figure, name) {
    if (figure.hiddenNames.has(name)) figure.hiddenNames.delete(name);
    else figure.hiddenNames.add(name);
    show(figure);
  }

  function isolate(figure, name) {
    figure.alone = figure.alone === name ? null : name;
    figure.hiddenNames.clear();
    show(figure);
  }

  async function draw(figure) {
    if (figure.drawn) return figure.drawn;
    const chart = data.charts[figure.dataset.chart];
    figure.hiddenNames = new Set();
    figure.alone = null;
    drawLegend(figure, chart);
    figure.drawn = (async () => {
      await loadPlotly();
      const panels = [...figure.querySelectorAll(".panel")];
      figure.querySelector(".still")?.remove();
      panels.forEach((panel) => { panel.hidden = false; });
      await Promise.all(panels.map((panel, i) =>
        Plotly.newPlot(panel, structuredClone(chart.panels[i].data), themed(chart.panels[i].layout), OPTIONS)));
      for (const panel of panels) {
        panel.on("plotly_click", (event) => {
          const name = event.points[0].data.meta;
          if (name) isolate(figure, name);
        });
      }
      figure.dataset.drawn = "yes";
    })();
    return figure.drawn;
  }

  const charts = () => [...document.querySelectorAll("figure.chart")];

  function drawWhenSeen() {
    watcher?.disconnect();
    watcher = new IntersectionObserver((entries) => {
      for (const entry of entries) if (entry.isIntersecting) { watcher.unobserve(entry.target); draw(entry.target); }
    }, { rootMargin: "400px" });
    charts().forEach((figure) => watcher.observe(figure));
  }

  function retheme() {
    for (const figure of charts()) {
      if (figure.dataset.drawn !== "yes") continue;
      const chart = data.charts[figure.dataset.chart];
      figure.querySelectorAll(".panel").forEach((panel, i) => Plotly.relayout(panel, themed(chart.panels[i].layout)));
    }
  }

  document.querySelector(".theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    retheme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", retheme);

  /* On paper every figure is there, whether it was scrolled to or not. */
  async function drawAll() { await Promise.all(charts().map(draw)); }
  addEventListener("beforeprint", () => {
    document.querySelectorAll("details.more").forEach((d) => { d.dataset.was = d.open; });
    drawAll().then(() => charts().forEach((f) => f.querySelectorAll(".panel").forEach((p) => Plotly.Plots.resize(p))));
  });
  matchMedia("print").addEventListener("change", retheme);

  /* Tables: sort by a column, copy the source. */
  const value = (text) => {
    const found = text.replace(/,/g, "").match(/-?\d+(\.\d+)?(e[+-]?\d+)?/i);
    if (!found) return null;
    return text.trim().startsWith("<") ? Number(found[0]) - 1e-12 : Number(found[0]);
  };
  function sort(button) {
    const head = button.closest("th");
    const table = head.closest("table");
    const column = [...head.parentNode.children].indexOf(head);
    const down = head.getAttribute("aria-sort") === "ascending";
    table.querySelectorAll("th[aria-sort]").forEach((th) => th.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows];
    const numeric = head.classList.contains("n");
    const key = (row) => { const t = row.cells[column].textContent; return numeric ? value(t) : t; };
    rows.sort((a, b) => {
      const x = key(a), y = key(b);
      if (x === null || y === null) return (x === null) - (y === null);
      const order = numeric ? x - y : x.localeCompare(y, undefined, { numeric: true });
      return down ? -order : order;
    });
    table.tBodies[0].append(...rows);
  }
  async function copy(button) {
    const text = data.tables[button.closest("figure").id][button.dataset.copy];
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    const before = button.textContent;
    button.textContent = "copied";
    setTimeout(() => { button.textContent = before; }, 1500);
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button?.classList.contains("sort")) sort(button);
    else if (button?.dataset.copy) copy(button);
  });

  /* A live page asks its server whether anything has ended, and changes in place. */
  async function follow() {
    const sign = document.querySelector(".live");
    let version = null;
    for (;;) {
      try {
        const state = await (await fetch("state", { cache: "no-store" })).json();
        if (version !== null && state.version !== version) {
          const text = await (await fetch("main", { cache: "no-store" })).text();
          const open = [...document.querySelectorAll("details[open]")].map((d) => d.closest("figure, section")?.id);
          const top = scrollY;
          document.getElementById("main").innerHTML = text;
          document.querySelectorAll("details").forEach((d) => {
            if (open.includes(d.closest("figure, section")?.id)) d.open = true;
          });
          start();
          scrollTo({ top, behavior: "instant" });
        }
        version = state.version;
        sign.textContent = state.building ? "live, updating" : "live";
        sign.classList.remove("lost");
      } catch {
        sign.textContent = "server gone";
        sign.classList.add("lost");
      }
      await new Promise((done) => setTimeout(done, 2000));
    }
  }

  function start() {
    data = JSON.parse(document.getElementById("data").textContent);
    const first = charts()[0];
    /* The page is there to be read before plotly.js, which takes a second or two, is unpacked. */
    requestAnimationFrame(() => setTimeout(() => {
      performance.mark("seedspread-readable");
      drawWhenSeen();
      (first ? draw(first) : Promise.resolve()).then(() => {
        performance.mark("seedspread-ready");
        root.dataset.ready = "yes";
      });
    }));
  }
  globalThis.seedspread = { drawAll };
  start();
  if (document.body.hasAttribute("data-live")) follow();
})();
