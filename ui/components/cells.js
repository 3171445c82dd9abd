// The cells of pictures by keyboard: a picture can be focused, arrow keys move over its cells, and each is read out with the
// words of its hover text. Nothing is attached to charts but the attributes for focusing.

const HOW = "Cells: arrow keys move to the next one, Home and End along the row, Page Up and Page Down by ten rows.";
const CHOOSE = "Enter chooses the cell.";
const FAR = 10; // rows
const places = new WeakMap(); // chart -> [row, column] that was read out last
let walked = null; // the focused chart, and the key of its container
let told = null; // the theme that was last sent to the page
let stop = null; // ends the previous call, which may be cleaned up after the next one has begun

export default function ({ parentElement, data, setTriggerValue }) {
    const ring = parentElement.querySelector(".ring");
    const said = parentElement.querySelector(".said");

    const hide = () => {
        ring.hidden = true;
        said.textContent = "";
    };
    const show = (chart, aside = "") => {
        const [row, column] = places.get(chart);
        const box = boxOf(chart, row, column);
        ring.hidden = !box;
        if (box) Object.assign(ring.style, pixels(box));
        const words = wordsFor(chart, row, column) + aside;
        if (said.textContent !== words) said.textContent = words;
        if (!box) return;
        const left = Math.max(8, Math.min(box.left, innerWidth - said.offsetWidth - 8));
        const below = box.top + box.height + 8;
        const top = below + said.offsetHeight < innerHeight ? below : box.top - said.offsetHeight - 8;
        Object.assign(said.style, pixels({ left, top }));
    };
    const focused = () => {
        const chart = document.activeElement;
        return chart?.matches(".js-plotly-plot[tabindex]") && isWalked(chart) ? chart : null;
    };
    const enter = (event) => {
        const chart = focused();
        const box = chart && chart.closest("[class*=st-key-picture_]");
        walked = box && { chart, key: [...box.classList].find((name) => name.startsWith("st-key-picture_")) };
        if (event && chart !== event.target) hide();
    };
    // Choosing a cell redraws its picture, sometimes as another element, which then gets the focus.
    const comeBack = () => {
        if (!walked || walked.chart.isConnected || document.activeElement !== document.body) return;
        const chart = document.querySelector(`.${walked.key} .js-plotly-plot[tabindex]`);
        if (!chart) return;
        places.set(chart, within(chart, places.get(walked.chart) || pinned(chart)));
        chart.focus({ preventScroll: true });
        show(chart);
    };
    // A figure's text has the colour of one theme, and Streamlit does not rerun the page when the theme changes.
    const tellTheme = () => {
        if (!said.isConnected) return; // an element that has left the page has no colour
        const theme = isDark(getComputedStyle(said).color) ? "dark" : "light"; // its text has the background's colour
        if (theme !== data.theme && theme !== told) setTriggerValue("theme", theme);
        told = theme === data.theme ? null : theme;
    };
    const follow = () => {
        const chart = focused();
        if (chart && places.has(chart) && said.textContent) {
            places.set(chart, within(chart, places.get(chart)));
            show(chart);
        } else hide();
    };

    const press = (event) => {
        const chart = focused();
        if (!chart || event.target !== chart || event.altKey || event.metaKey) return;
        const shape = shapeOf(chart);
        const known = within(chart, places.get(chart) || pinned(chart));
        const isFirst = !said.textContent;
        const [row, column] = known;
        const whole = event.ctrlKey;
        const moves = {
            ArrowUp: [row - 1, column],
            ArrowDown: [row + 1, column],
            ArrowLeft: [row, column - 1],
            ArrowRight: [row, column + 1],
            Home: [whole ? 0 : row, 0],
            End: [whole ? shape[0] - 1 : row, shape[1] - 1],
            PageUp: [row - FAR, column],
            PageDown: [row + FAR, column],
        };
        if (event.key in moves) {
            places.set(chart, within(chart, isFirst && event.key.startsWith("Arrow") ? known : moves[event.key]));
            chart.scrollIntoView({ block: "nearest", behavior: "instant" });
            show(chart);
        } else if (event.key === "Enter" || event.key === " ") {
            places.set(chart, known);
            document.dispatchEvent(new CustomEvent("headlight-cell", { detail: cellOf(chart.layout, ...known) }));
            show(chart, isChoosing() ? ". Chosen." : "");
        } else if (event.key === "Escape") {
            walked = null;
            chart.blur();
        } else return;
        event.preventDefault();
        event.stopPropagation(); // the tour and others listen to the same keys
    };

    const mark = () => {
        for (const chart of document.querySelectorAll(".stPlotlyChart .js-plotly-plot")) { // not those that are being saved
            fitLabels(chart);
            if (!isWalked(chart)) {
                unmark(chart);
                continue;
            }
            chart.tabIndex = 0;
            chart.setAttribute("role", "application");
            const label = isChoosing() ? `${HOW} ${CHOOSE}` : HOW;
            if (chart.getAttribute("aria-label") !== label) chart.setAttribute("aria-label", label);
        }
        markToolbars();
        comeBack();
        follow();
        tellTheme();
    };
    let waiting = 0;
    const soon = () => {
        cancelAnimationFrame(waiting);
        waiting = requestAnimationFrame(mark);
    };

    stop?.();
    const observer = new MutationObserver(soon);
    observer.observe(document.body, { childList: true, subtree: true });
    const listeners = [["keydown", press], ["focusin", enter], ["focusout", hide], ["scroll", follow], ["resize", soon]];
    for (const [name, listener] of listeners) window.addEventListener(name, listener, true);
    const end = () => {
        observer.disconnect();
        cancelAnimationFrame(waiting);
        for (const [name, listener] of listeners) window.removeEventListener(name, listener, true);
    };
    stop = end;
    mark();
    return () => {
        end();
        if (stop === end) document.querySelectorAll(".js-plotly-plot[role=application]").forEach(unmark);
    };
}

function unmark(chart) {
    for (const name of ["tabindex", "role", "aria-label"]) chart.removeAttribute(name);
}

const isChoosing = () => document.querySelector(".st-key-pin") !== null;

// Return whether a chart is a heatmap whose hidden axes hold its cells. The equation has its own keys.
function isWalked(chart) {
    const { meta, xaxis2, yaxis2 } = chart.layout || {};
    return Boolean(meta?.rows && !meta.subplots && xaxis2?.tickvals && yaxis2?.tickvals);
}

const shapeOf = ({ layout }) => [layout.yaxis2.tickvals.length, layout.xaxis2.tickvals.length];

const within = (chart, place) => shapeOf(chart).map((count, axis) => Math.max(0, Math.min(place[axis], count - 1)));

// Return the framed cell, or the first one.
function pinned({ layout }) {
    const frame = (layout.shapes || []).find((shape) => shape.type === "rect" && shape.line?.width === 3);
    if (!frame) return [0, 0];
    return [
        nearest(layout.yaxis2.tickvals, (frame.y0 + frame.y1) / 2),
        nearest(layout.xaxis2.tickvals, (frame.x0 + frame.x1) / 2),
    ];
}

// Return the rectangle of a cell on the screen; null if it is outside the zoomed range.
function boxOf(chart, row, column) {
    const area = chart.querySelector(".nsewdrag");
    if (!area) return null;
    const { xaxis, yaxis, xaxis2, yaxis2, meta } = chart.layout;
    const box = area.getBoundingClientRect();
    const share = (axis, middle) => (middle - axis.range[0]) / (axis.range[1] - axis.range[0]);
    const [across, down] = [share(xaxis, xaxis2.tickvals[column]), 1 - share(yaxis, yaxis2.tickvals[row])];
    if (Math.min(across, down) < 0 || Math.max(across, down) > 1) return null;
    const width = cellWidth(chart);
    const height = (meta.row_block * box.height) / Math.abs(yaxis.range[1] - yaxis.range[0]);
    const [x, y] = [box.left + across * box.width, box.top + down * box.height];
    return { left: x - width / 2, top: y - height / 2, width, height };
}

const isDark = (colour) => colour.match(/[\d.]+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) < 3 * 128;

const pixels = (box) => Object.fromEntries(Object.entries(box).map(([side, length]) => [side, `${length}px`]));

// Return the hover text of a cell.
function wordsFor(chart, row, column) {
    const { xaxis2, yaxis2, meta } = chart.layout;
    const name = (axis, place) => (axis.ticktext || axis.tickvals)[place];
    const at = (table) => table?.[row]?.[column];
    const known = (value) => value !== undefined && value !== null && !Number.isNaN(value);
    const cells = (chart._fullData || []).find((trace) => trace.type === "heatmap" && known(at(trace.z)));
    const bare = `${meta.rows} %{y}<br>${meta.columns} %{x}<br>${meta.empty || "no number"}`;
    const values = { y: name(yaxis2, row), x: name(xaxis2, column) };
    if (cells) Object.assign(values, { z: at(cells.z), text: at(cells.text), customdata: at(cells.customdata) });
    const filled = (cells?.hovertemplate || bare)
        .replace(/<extra>.*<\/extra>/, "")
        .replaceAll(/%\{(\w+)[^}]*\}/g, (_, field) => written(values[field]))
        .replaceAll("<br>", ", ");
    return new DOMParser().parseFromString(filled, "text/html").body.textContent; // tokens are escaped in there
}

function written(value) {
    if (typeof value !== "number") return value === undefined ? "" : String(value);
    return String(Number(value.toPrecision(3))).replace("-", "−");
}
