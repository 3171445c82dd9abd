// The cells of a heatmap, from the figure's own layout: charts are redrawn after every change, so nothing is attached to them.
// The hidden axes hold the middles of all drawn cells.

const nearest = (middles, at) =>
    middles.reduce((best, middle, place) => (Math.abs(middle - at) < Math.abs(middles[best] - at) ? place : best), 0);

// Return the message that chooses a cell: on each axis its middle, and how many positions it stands for.
function cellOf({ meta, xaxis2, yaxis2 }, row, column) {
    return [
        { axis: meta.rows, middle: yaxis2.tickvals[row] + (meta.row_from || 0), cells: meta.row_block },
        { axis: meta.columns, middle: xaxis2.tickvals[column] + (meta.column_from || 0), cells: meta.column_block },
    ];
}
