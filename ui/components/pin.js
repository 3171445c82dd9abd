const NEAR = 24; // pixels: a click this close to a point chooses it
const EMPTY = ".stPlotlyChart, .js-plotly-plot, .plot-container, .svg-container"; // a picture while it is redrawn
// The last places where the mouse was over a picture and where it was pressed: the picture and the page may be redrawn
// before the mouse is pressed, and before it is released.
let passed = null, pressed = null;
let marks = []; // of painted cells, until the page has run
let listening = new AbortController();

export default function ({ parentElement, data, setTriggerValue }) {
    const clicks = (parentElement.clicks ??= new Clicks());
    clicks.read(data.seen);
    clearMarks();
    const single = (rows, row, columns, column) => [
        { axis: rows, middle: row, cells: 1 },
        { axis: columns, middle: column, cells: 1 },
    ];
    // Return the cell under a point.
    const cellAt = (chart, area, event) => {
        const { meta, xaxis, yaxis, xaxis2, yaxis2 } = chart.layout || {};
        if (meta?.map) return headAt(meta.map, area, event, xaxis, yaxis);
        if (!meta?.rows) return null;
        // Of several small pictures in one, only the number of the picture matters.
        if (meta.subplots) return single(meta.rows, 0, meta.columns, meta.subplots.indexOf(area.dataset.subplot));
        const box = area.getBoundingClientRect();
        const place = (share, { range }, { tickvals }) => nearest(tickvals, range[0] + share * (range[1] - range[0]));
        const row = place(1 - (event.clientY - box.top) / box.height, yaxis, yaxis2);
        const column = place((event.clientX - box.left) / box.width, xaxis, xaxis2);
        return cellOf(chart.layout, row, column);
    };
    // Return the nearest point of a map, if it is close enough.
    const headAt = ({ rows, columns, places }, area, event, xaxis, yaxis) => {
        const box = area.getBoundingClientRect();
        const along = (value, axis) => (value - axis.range[0]) / (axis.range[1] - axis.range[0]);
        const away = ([, , x, y]) =>
            Math.hypot(
                box.left + along(x, xaxis) * box.width - event.clientX,
                box.bottom - along(y, yaxis) * box.height - event.clientY,
            );
        const best = places.reduce((one, other) => (away(other) < away(one) ? other : one), places[0]);
        return best && away(best) <= NEAR ? single(rows, best[0], columns, best[1]) : null;
    };
    // Pressing and releasing at the same place is a click; anything else zooms. (Plotly covers the page in between.)
    const pointedAt = (event) => {
        const area = event.target.closest?.(".nsewdrag");
        const chart = area?.closest(".js-plotly-plot");
        return chart && { x: event.clientX, y: event.clientY, chart, area, cell: cellAt(chart, area, event) };
    };
    // The cells from where the mouse was pressed to where it is, on a picture that says that regions of it can be drawn.
    const regionTo = (event) => {
        const last = cellAt(pressed.chart, pressed.area, event);
        return pressed.cell.map(({ axis, middle }, number) => ({
            axis,
            middle: (middle + last[number].middle) / 2,
            cells: Math.abs(middle - last[number].middle) + 1,
        }));
    };
    // On a picture that is painted: the cells over which the mouse goes while it is held and that are like the first one.
    const like = (chart, [{ middle: row }, { middle: column }]) =>
        chart.calcdata.map(([first]) => first.z?.[row]?.[column]).find((value) => value === 0 || value === 1);
    const paint = (event) => {
        const { chart, area, cell: begun, painted } = pressed, box = area.getBoundingClientRect();
        const isBeside = (at, from, to) => at <= from || at >= to;
        if (isBeside(event.clientX, box.left, box.right) || isBeside(event.clientY, box.top, box.bottom)) return;
        const cell = cellAt(chart, area, event), name = cell.map(({ middle }) => middle).join();
        if (painted.has(name) || like(chart, cell) !== like(chart, begun)) return;
        painted.set(name, cell);
        const along = (place, { range }, length) => {
            const size = length / Math.abs(range[1] - range[0]);
            return { size, from: (place - Math.min(...range) - 0.5) * size };
        };
        const across = along(cell[1].middle, chart.layout.xaxis, box.width);
        const down = along(cell[0].middle, chart.layout.yaxis, box.height);
        const mark = document.createElement("div");
        Object.assign(mark.style, {
            position: "fixed", pointerEvents: "none", zIndex: 10, background: "currentColor", opacity: 0.45,
            left: `${box.left + across.from}px`, top: `${box.top + down.from}px`,
            width: `${across.size}px`, height: `${down.size}px`,
        });
        document.body.append(mark);
        marks.push(mark);
    };
    const isAt = (place, event) => place && Math.hypot(event.clientX - place.x, event.clientY - place.y) < 5;
    const move = (event) => {
        if (pressed?.painted) paint(event);
        else passed = pointedAt(event) || passed;
    };
    const down = (event) => {
        pressed = null;
        if (!event.isPrimary || event.button !== 0) return;
        pressed = pointedAt(event) || (event.target.matches?.(EMPTY) && isAt(passed, event) ? passed : null);
        if (!pressed?.cell || !pressed.chart.layout?.meta?.paints) return;
        pressed.painted = new Map();
        paint(event);
    };
    const choose = (cell) => setTriggerValue("clicks", clicks.add(cell));
    const up = (event) => {
        if (pressed?.painted?.size > 1) for (const cell of pressed.painted.values()) choose(cell);
        else if (pressed?.cell && isAt(pressed, event)) choose(pressed.cell);
        else if (pressed?.cell && pressed.chart.layout?.meta?.drags) choose(regionTo(event));
        else clearMarks();
        pressed = null;
    };
    const chosen = (event) => choose(event.detail); // chosen by keyboard: see cells.js
    listening.abort(); // the earlier call may be cleaned up later, and a click counts once
    const mine = (listening = new AbortController());
    const listeners = { "headlight-cell": chosen, pointermove: move, pointerdown: down, pointerup: up };
    for (const [name, listener] of Object.entries(listeners)) {
        document.addEventListener(name, listener, { capture: true, signal: mine.signal });
    }
    return () => mine.abort();
}

function clearMarks() {
    for (const mark of marks.splice(0)) mark.remove();
}
