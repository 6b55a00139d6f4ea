// Zoom and hover for the drawn figures. Without this script the page shows the same figures and tables.
"use strict";
(function () {
  var figures = Array.prototype.slice.call(document.querySelectorAll("figure[data-chart]"));
  var charts = [];

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function number(value, unit) {
    return value == null ? "-" : (value >= 1000 ? (value / 1000).toFixed(1) + " s" : value + unit);
  }

  function Chart(figure) {
    var data = JSON.parse(figure.querySelector("script[type='application/json']").textContent);
    var plot = figure.querySelector(".plot");
    var x = data.good.map(function (_, i) { return Math.round((i + 0.5) * data.step * 1000) / 1000; });
    var readout = document.createElement("output");
    var at = -1;
    var layer = document.createElement("div");
    var zoomed = null;
    readout.className = "readout";
    readout.textContent = "Hover, or focus the figure and use the arrow keys; drag, or press +, to zoom.";
    figure.insertBefore(readout, figure.querySelector(".scroll"));
    layer.className = "layer";
    layer.tabIndex = 0;
    layer.setAttribute("role", "group");
    layer.setAttribute("aria-label", "Explore " + data.title +
      ": left and right arrows move, plus zooms in, minus or Escape shows the whole run");
    plot.appendChild(layer);

    function say(i) {
      if (i == null || i < 0 || i >= x.length) { return; }
      at = i;
      readout.textContent = x[i].toFixed(data.step < 1 ? 1 : 0) + " s: " + data.good[i] + "/s good, " +
        data.late[i] + " late, " + data.failed[i] + " failed" +
        (data.unknown[i] ? ", " + data.unknown[i] + " without outcome" : "") +
        (data.offered ? ", " + data.offered[i] + "/s due" : "") +
        "; p50 " + number(data.p50[i], " ms") + ", p99 " + number(data.p99[i], " ms");
    }

    function follow(u) { if (u.cursor.idx != null && u.cursor.left >= 0) { say(u.cursor.idx); } }

    function taken(u) {
      if (u.select.width > 4) {
        zoomAll(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x"));
      }
      u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    }

    // A window without axes of its own that lies exactly over the drawn plot: it only points and selects.
    var cover = new uPlot({
      width: layer.clientWidth || 600, height: layer.clientHeight || 250, padding: [0, 0, 0, 0],
      legend: { show: false }, axes: [{ show: false }, { show: false }],
      scales: { x: { time: false, range: [0, data.seconds] }, y: { range: [0, 1] } },
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false },
                sync: { key: "run", setSeries: false } },
      series: [{}, { show: true, stroke: "transparent", width: 0, points: { show: false } }],
      hooks: { setCursor: [follow], setSelect: [taken] }
    }, [x, x.map(function () { return 0; })], layer);

    function axis(values) {
      return { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 },
               ticks: { stroke: colour("--line") }, values: values, size: 62,
               font: "11px system-ui, sans-serif" };
    }

    function panel(box, height, scale, series, columns, values, range, splits) {
      var y = axis(values);
      if (splits) { y.splits = function () { return splits; }; y.filter = function (u, each) { return each; }; }
      return new uPlot({
        width: box.clientWidth, height: height, padding: [10, 14, 0, 0],
        scales: { x: { time: false, range: range }, y: scale },
        axes: [Object.assign(axis(function (u, v) { return v.map(function (s) { return +s.toFixed(2) + " s"; }); }),
                             { size: 30 }), y],
        legend: { show: false },
        cursor: { y: false, drag: { x: true, y: false, setScale: false }, sync: { key: "run", setSeries: false } },
        series: [{}].concat(series),
        hooks: { setCursor: [follow], setSelect: [taken] }
      }, [x].concat(columns), box);
    }

    this.zoom = function (from, to) {
      this.reset();
      from = Math.max(0, from); to = Math.min(data.seconds, to);
      if (to - from < 4 * data.step) { to = Math.min(data.seconds, from + 4 * data.step); }
      var box = document.createElement("div");
      box.className = "zoomed";
      plot.classList.add("is-zoomed");
      plot.appendChild(box);
      var whole = document.createElement("button");
      whole.type = "button"; whole.textContent = "Whole run";
      whole.addEventListener("click", resetAll);
      box.appendChild(whole);
      var stepped = uPlot.paths.stepped({ align: 1 });
      function rate(label, name, dash, width) {
        return { label: label, stroke: colour(name), width: width, dash: dash, paths: stepped, points: { show: false } };
      }
      var range = [from, to];
      zoomed = [
        panel(box, 140, { range: function (u, low, high) { return [0, Math.max(high, 1) * 1.05]; } }, [
          rate("good", "--good-ink", [], 2), rate("late", "--late", [6, 3], 2),
          rate("failed", "--failed", [2, 2], 2.4), rate("no outcome", "--unknown", [1, 4], 2)
        ].concat(data.offered ? [rate("due", "--ink", [], 1.2)] : []),
        [data.good, data.late, data.failed, data.unknown].concat(data.offered ? [data.offered] : []),
        function (u, v) { return v.map(function (n) { return n + "/s"; }); }, range),
        panel(box, 150, { distr: 3, range: [1, 10000] }, [
          { stroke: colour("--good-ink"), width: 1.2, dash: [7, 4], points: { show: false } },
          { stroke: colour("--p50"), width: 1.8, points: { show: false }, spanGaps: false },
          { stroke: colour("--p99"), width: 1.3, dash: [5, 3], points: { show: false }, spanGaps: false }
        ], [x.map(function () { return data.objective; }), data.p50, data.p99],
        function (u, v) { return v.map(function (n) { return n == null ? "" : n >= 1000 ? n / 1000 + " s" : n + " ms"; }); },
        range, [1, 10, 100, 1000, 10000])
      ];
      this.range = range;
    };

    this.reset = function () {
      if (!zoomed) { return; }
      zoomed.forEach(function (u) { u.destroy(); });
      zoomed = null; this.range = null;
      plot.classList.remove("is-zoomed");
      plot.removeChild(plot.querySelector(".zoomed"));
    };

    this.resize = function () {
      cover.setSize({ width: layer.clientWidth || 600, height: layer.clientHeight || 250 });
      if (this.range) { this.zoom(this.range[0], this.range[1]); }
    };

    function move(to) {
      to = Math.max(0, Math.min(x.length - 1, to));
      cover.setCursor({ left: cover.valToPos(x[to], "x"), top: 10 });
      say(to);
    }

    var chart = this;
    plot.addEventListener("keydown", function (event) {
      var step = event.shiftKey ? 10 : 1;
      if (event.key === "ArrowRight") { move(at + step); }
      else if (event.key === "ArrowLeft") { move((at < 0 ? x.length : at) - step); }
      else if (event.key === "Home") { move(0); }
      else if (event.key === "End") { move(x.length - 1); }
      else if (event.key === "+" || event.key === "=") {
        var now = chart.range || [0, data.seconds], middle = at < 0 ? (now[0] + now[1]) / 2 : x[at];
        var half = (now[1] - now[0]) / 4;
        zoomAll(middle - half, middle + half);
        layer.focus();
      } else if (event.key === "-" || event.key === "Escape") { resetAll(); }
      else { return; }
      event.preventDefault();
    });
  }

  function zoomAll(from, to) { charts.forEach(function (chart) { chart.zoom(from, to); }); }
  function resetAll() { charts.forEach(function (chart) { chart.reset(); }); }

  charts = figures.map(function (figure) { return new Chart(figure); });
  var later;
  window.addEventListener("resize", function () {
    clearTimeout(later);
    later = setTimeout(function () { charts.forEach(function (chart) { chart.resize(); }); }, 150);
  });
  window.addEventListener("beforeprint", resetAll);

  // A link to something inside a closed part opens that part.
  function open() {
    var target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (var each = target; each; each = each.parentElement) { if (each.tagName === "DETAILS") { each.open = true; } }
  }
  window.addEventListener("hashchange", open);
  open();
})();
