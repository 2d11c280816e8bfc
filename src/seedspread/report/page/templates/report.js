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
  const ON_PAPER = { "--ink": "#000", "--soft": "#444", "--grid": "#ddd", "--line": "#bbb", "--card": "#fff", "--accent": "#000" };
  function themed(layout, printing = false) {
    const style = getComputedStyle(document.body);
    const of = (name) => (printing ? ON_PAPER[name] : style.getPropertyValue(name).trim());
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

  const SWATCH = (entry) => (entry.symbol < 0
    ? `<path d="M1 8h14" stroke="${entry.colour}" stroke-width="3"/>` : SHAPES[entry.symbol % SHAPES.length]);

  function drawLegend(figure, chart) {
    const legend = figure.querySelector(".legend");
    for (const entry of chart.legend) {
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      button.innerHTML = `<svg viewBox="0 0 16 16" aria-hidden="true" fill="${entry.colour}" data-colour="${entry.colour}">${SWATCH(entry)}</svg>`;
      button.append(entry.name);
      button.dataset.name = entry.name;
      button.title = "Press to show or hide; with Shift, or twice, to see it alone";
      button.addEventListener("click", (event) => (event.shiftKey ? isolate : toggle)(figure, entry.name));
      button.addEventListener("dblclick", () => isolate(figure, entry.name));
      legend.append(button);
    }
  }

  /* A condition is a name: of a button, and of traces in every panel. */
  function show(figure) {
    const buttons = [...figure.querySelectorAll(".legend button")];
    for (const button of buttons) {
      button.setAttribute("aria-pressed", String(!figure.hiddenNames.has(button.dataset.name)));
      button.classList.toggle("alone", figure.alone === button.dataset.name);
    }
    /* The entries that a trace belongs to: its own, or, of an arm's mean and band, those of all its cells. */
    const entries = (trace) => buttons.map((b) => b.dataset.name)
      .filter((name) => name === trace.meta || (trace.meta && name.startsWith(trace.meta + ", ")));
    for (const panel of figure.querySelectorAll(".panel")) {
      if (!panel.data) continue;
      const names = panel.data.map(entries);
      const visible = names.map((own) => !own.length || own.some((n) => !figure.hiddenNames.has(n)));
      const opacity = names.map((own) => (!figure.alone || !own.length || own.includes(figure.alone) ? 1 : 0.1));
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

  function draw(figure) {
    if (figure.drawn) return figure.drawn;
    const chart = data.charts[figure.dataset.chart];
    figure.hiddenNames = new Set();
    figure.alone = null;
    drawLegend(figure, chart);
    figure.drawn = loadPlotly().then(() => drawPanels(figure, chart));
    return figure.drawn;
  }

  /* Some colours have another of their kind for a dark page. */
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  function tinted(traces, dark) {
    const of = (colour) => (dark && data.dark[colour]) || colour;
    const glass = (hex) => `rgba(${[1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)).join(",")},0.18)`;
    return structuredClone(traces).map((trace) => {
      if (trace.line?.color) trace.line.color = of(trace.line.color);
      if (trace.marker) trace.marker.color = of(trace.marker.color);
      if (trace.fill) trace.fillcolor = glass(trace.line.color);
      return trace;
    });
  }
  function tint(figure, dark) {
    const chart = data.charts[figure.dataset.chart];
    figure.querySelectorAll(".legend svg").forEach((svg) => {
      const colour = (dark && data.dark[svg.dataset.colour]) || svg.dataset.colour;
      svg.setAttribute("fill", colour);
      svg.querySelector("[stroke]")?.setAttribute("stroke", colour);
    });
    figure.querySelectorAll(".panel").forEach((panel, i) => {
      const traces = tinted(chart.panels[i].data, dark);
      Plotly.restyle(panel, {
        "line.color": traces.map((t) => t.line?.color ?? null),
        "marker.color": traces.map((t) => t.marker?.color ?? null),
        fillcolor: traces.map((t) => t.fillcolor ?? null),
      });
    });
  }

  /* Plotly draws these at once, before its promise is kept: so that paper can have them too. */
  function drawPanels(figure, chart) {
    if (figure.dataset.drawn === "yes") return;
    const panels = [...figure.querySelectorAll(".panel")];
    figure.querySelector(".still")?.remove();
    panels.forEach((panel, i) => {
      panel.hidden = false;
      Plotly.newPlot(panel, tinted(chart.panels[i].data, isDark()), themed(chart.panels[i].layout), OPTIONS);
      panel.on("plotly_click", (event) => {
        const name = event.points[0].data.meta;
        if (name) isolate(figure, name);
      });
    });
    figure.dataset.drawn = "yes";
    if (isDark()) tint(figure, true);
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
      tint(figure, isDark());
    }
  }

  document.querySelector(".theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    retheme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", retheme);

  /* On paper every figure is there, whether it was scrolled to or not, in black on white, in the paper's width. */
  async function drawAll() { await Promise.all(charts().map(draw)); }
  function fitPaper(printing) {
    if (!globalThis.Plotly) return;
    for (const figure of charts()) {
      const chart = data.charts[figure.dataset.chart];
      draw(figure);
      drawPanels(figure, chart);
      const width = chart.panels.length > 1 ? 325 : 600;
      figure.querySelectorAll(".panel").forEach((panel, i) => {
        const layout = themed(chart.panels[i].layout, printing);
        Plotly.relayout(panel, { ...layout, autosize: !printing, width: printing ? width : null });
        if (!printing) Plotly.Plots.resize(panel);
      });
      tint(figure, !printing && isDark());
    }
  }
  addEventListener("beforeprint", () => {
    document.querySelectorAll("details.group:not([open])").forEach((d) => { d.open = true; d.dataset.opened = "yes"; });
    fitPaper(true);
  });
  addEventListener("afterprint", () => {
    document.querySelectorAll("details[data-opened]").forEach((d) => { d.open = false; delete d.dataset.opened; });
    fitPaper(false);
  });

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
    /* The paper's row stays under the one that it belongs to. */
    const rows = [];
    for (const row of table.tBodies[0].rows) {
      if (row.classList.contains("muted") && rows.length) rows.at(-1).push(row);
      else rows.push([row]);
    }
    const numeric = head.classList.contains("n");
    const key = ([row]) => { const t = row.cells[column].textContent; return numeric ? value(t) : t; };
    rows.sort((a, b) => {
      const x = key(a), y = key(b);
      if (x === null || y === null) return (x === null) - (y === null);
      const order = numeric ? x - y : x.localeCompare(y, undefined, { numeric: true });
      return down ? -order : order;
    });
    table.tBodies[0].append(...rows.flat());
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
    button.dataset.label ??= button.textContent;
    button.textContent = "copied";
    document.querySelector(".said").textContent = "copied";
    clearTimeout(button.timer);
    button.timer = setTimeout(() => { button.textContent = button.dataset.label; }, 1500);
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button?.classList.contains("sort")) sort(button);
    else if (button?.dataset.copy) copy(button);
  });

  /* A live page asks its server whether anything has ended, and changes in place. */
  async function follow() {
    const sign = document.querySelector(".live");
    for (;;) {
      try {
        const state = await (await fetch("state", { cache: "no-store" })).json();
        if (state.version !== document.querySelector("main").dataset.version) {
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
        if (sign.textContent !== state.state) sign.textContent = state.state;
        sign.classList.remove("lost");
      } catch {
        sign.textContent = "server gone";
        sign.classList.add("lost");
      }
      await new Promise((done) => setTimeout(done, 2000));
    }
  }

  /* Runs under way come more often than the rest of the page, which is made anew for each that has ended. */
  async function followRuns() {
    const place = document.getElementById("under-way");
    let last = "";
    for (;;) {
      try {
        const text = await (await fetch("under-way", { cache: "no-store" })).text();
        if (text !== last) {
          last = text;
          const [x, y] = [place.querySelector(".scroll")?.scrollLeft, place.querySelector(".scroll")?.scrollTop];
          place.innerHTML = text;
          place.hidden = !text;
          place.querySelector(".scroll")?.scrollTo(x ?? 0, y ?? 0);
        }
      } catch { /* the sign above says that the server is gone */ }
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
  if (document.body.hasAttribute("data-live")) { follow(); followRuns(); }
})();
