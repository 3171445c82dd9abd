const NEAR = 24; // pixels: a click this close to a point chooses it
const EMPTY = ".stPlotlyChart, .js-plotly-plot, .plot-container, .svg-container"; // a picture while it is redrawn
// The last places where the mouse was over a picture and where it was pressed: the picture and the page may be redrawn
// before the mouse is pressed, and before it is released.
let passed = null, pressed = null;

export default function ({ setTriggerValue }) {
    // Return the cell under a point, from the figure's own layout: charts are redrawn after every change, so nothing is
    // attached to them. The hidden axes hold the middles of all drawn cells.
    const cellAt = (chart, area, event) => {
        const { meta, xaxis, yaxis, xaxis2, yaxis2 } = chart.layout || {};
        if (meta && meta.map) return headAt(meta.map, area, event, xaxis, yaxis);
        if (!meta || !meta.rows) return null;
        // Of several small pictures in one, only the number of the picture matters.
        if (meta.subplots) {
            return [
                { axis: meta.rows, middle: 0, cells: 1 },
                { axis: meta.columns, middle: meta.subplots.indexOf(area.dataset.subplot), cells: 1 },
            ];
        }
        const box = area.getBoundingClientRect();
        const place = (share, axis, middles) => {
            const at = axis.range[0] + share * (axis.range[1] - axis.range[0]);
            return middles.reduce((best, middle) => (Math.abs(middle - at) < Math.abs(best - at) ? middle : best));
        };
        const rows = place(1 - (event.clientY - box.top) / box.height, yaxis, yaxis2.tickvals);
        const columns = place((event.clientX - box.left) / box.width, xaxis, xaxis2.tickvals);
        return [
            { axis: meta.rows, middle: rows + (meta.row_from || 0), cells: meta.row_block },
            { axis: meta.columns, middle: columns + (meta.column_from || 0), cells: meta.column_block },
        ];
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
        if (!best || away(best) > NEAR) return null;
        return [
            { axis: rows, middle: best[0], cells: 1 },
            { axis: columns, middle: best[1], cells: 1 },
        ];
    };
    // Pressing and releasing at the same place is a click; anything else zooms. (Plotly covers the page in between.)
    const pointedAt = (event) => {
        const area = event.target.closest && event.target.closest(".nsewdrag");
        const chart = area && area.closest(".js-plotly-plot");
        return chart && { x: event.clientX, y: event.clientY, cell: cellAt(chart, area, event) };
    };
    const isAt = (place, event) => place && Math.hypot(event.clientX - place.x, event.clientY - place.y) < 5;
    const move = (event) => { passed = pointedAt(event) || passed; };
    const down = (event) => {
        pressed = null;
        if (!event.isPrimary || event.button !== 0) return;
        pressed = pointedAt(event) || (event.target.matches?.(EMPTY) && isAt(passed, event) ? passed : null);
    };
    const up = (event) => {
        if (isAt(pressed, event) && pressed.cell) setTriggerValue("cell", pressed.cell);
        pressed = null;
    };
    const chosen = (event) => setTriggerValue("cell", event.detail); // chosen by keyboard: see cells.js
    document.addEventListener("headlight-cell", chosen);
    document.addEventListener("pointermove", move, true);
    document.addEventListener("pointerdown", down, true);
    document.addEventListener("pointerup", up, true);
    return () => {
        document.removeEventListener("headlight-cell", chosen);
        document.removeEventListener("pointermove", move, true);
        document.removeEventListener("pointerdown", down, true);
        document.removeEventListener("pointerup", up, true);
    };
}
