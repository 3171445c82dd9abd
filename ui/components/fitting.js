// Labels that fit. The server chooses the labels of a picture without knowing how wide it will be: in a narrow one they would lie
// on each other. There some are hidden, and numbers in cells get smaller letters, or are hidden where nobody could read them.

const SMALLEST = 9; // pixels: letters of numbers in cells
const ROOM = 0.95; // of a cell's width, for its number
const fitted = new WeakMap(); // chart -> its layout when its labels were fitted: whenever Plotly draws, it makes a new one

function fitLabels(chart) {
    const layout = chart._fullLayout;
    if (!layout || fitted.get(chart) === layout) return;
    fitted.set(chart, layout);
    for (const axis of chart.querySelectorAll(".xaxislayer-above, .xaxislayer-below")) {
        thinOut([...axis.querySelectorAll(".xtick > text")]);
    }
    if (isWalked(chart)) fitNumbers([...chart.querySelectorAll(".scatterlayer .textpoint > text")], cellWidth(chart));
}

// Hide each label that would lie on one before it. The label of the chosen column, in bold, comes first.
function thinOut(labels) {
    const isBold = (label) => label.querySelector("[style*=bold]") !== null;
    const kept = [];
    for (const label of labels.sort((one, other) => isBold(other) - isBold(one))) {
        const room = roomOf(label);
        const isFree = kept.every(({ left, right }) => right <= room.left || room.right <= left);
        label.style.visibility = isFree ? "" : "hidden";
        if (isFree) kept.push(room);
    }
}

// Return from where to where a label keeps others away. A slanted one needs its height along the axis, and not its length.
function roomOf(label) {
    const { left, right } = label.getBoundingClientRect();
    const angle = Number(/rotate\((-?[\d.]+)/.exec(label.getAttribute("transform"))?.[1] || 0);
    if (!angle) return { left, right };
    return { left: right - parseFloat(label.style.fontSize) / Math.abs(Math.sin((angle * Math.PI) / 180)), right };
}

function fitNumbers(numbers, width) {
    const sizes = numbers.map((number) => parseFloat(number.style.fontSize)); // Plotly sets it whenever it draws
    const widths = numbers.map((number) => number.getBoundingClientRect().width);
    const share = Math.min(1, (ROOM * width) / Math.max(...widths));
    numbers.forEach((number, place) => {
        const size = Math.floor(sizes[place] * share);
        number.style.fontSize = `${size}px`;
        number.style.visibility = size < SMALLEST ? "hidden" : "";
    });
}

function cellWidth(chart) {
    const { xaxis, meta } = chart._fullLayout;
    return (meta.column_block * xaxis._length) / Math.abs(xaxis.range[1] - xaxis.range[0]);
}
