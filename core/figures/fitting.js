// Labels that fit. The server chooses the labels of a picture without knowing how large it will be: in a small one they would lie
// on each other. There up to 30 of them get smaller letters, or are turned; of more, some are hidden. Numbers in cells get smaller
// letters, or are hidden where nobody could read them.

const ALL = 30; // labels along a side that are all shown: as in axes.py
const LEAST = 5, READ = 8; // pixels of letters: of any label; below which slanted labels are turned upright
const SMALLEST = 9; // pixels: letters of numbers in cells
const LINE = 1.05; // the height of a line, as a share of that of its letters
const ROOM = 0.95; // of a cell's width, for its number
const fitted = new WeakMap(); // chart -> its layout when its labels were fitted: whenever Plotly draws, it makes a new one

function fitLabels(chart) {
    const layout = chart._fullLayout;
    if (!layout || fitted.get(chart) === layout) return;
    fitted.set(chart, layout);
    for (const axis of chart.querySelectorAll(".xaxislayer-above, .xaxislayer-below")) {
        fitAcross([...axis.querySelectorAll(".xtick > text")]);
    }
    for (const axis of chart.querySelectorAll(".yaxislayer-above, .yaxislayer-below")) {
        fitDown([...axis.querySelectorAll(".ytick > text")]);
    }
    if (layout.meta?.column_block) fitNumbers([...chart.querySelectorAll(".scatterlayer .textpoint > text")], cellWidth(chart));
}

function fitDown(labels) {
    if (labels.length > ALL) return;
    const room = apart(labels.map((label) => placeOf(label)[1])) / LINE;
    for (const label of labels) {
        const size = parseFloat(label.style.fontSize);
        if (size <= room) continue;
        write(label, room);
        label.setAttribute("y", 0.35 * parseFloat(label.style.fontSize)); // in the middle of its row
    }
}

function fitAcross(labels) {
    if (labels.length > ALL) return thinOut(labels);
    const room = apart(labels.map((label) => placeOf(label)[0])) / LINE;
    for (const label of labels) label.style.visibility = "";
    const boxes = labels.map((label) => label.getBoundingClientRect());
    const areUpright = labels.every((label) => !angleOf(label));
    if (areUpright && boxes.every(({ left }, place) => place === 0 || boxes[place - 1].right <= left)) return;
    for (const [place, label] of labels.entries()) {
        const size = parseFloat(label.style.fontSize), slanted = room * LINE * Math.SQRT1_2;
        if (areUpright ? boxes[place].width <= room : size <= slanted) continue;
        if (!areUpright && slanted >= READ) write(label, slanted);
        else turn(label, Math.min(size * Math.SQRT1_2, room));
    }
}

// Let a label stand on its side below its column. In letters of this size it is no longer than the room below.
function turn(label, size) {
    const before = parseFloat(label.style.fontSize), [x] = placeOf(label);
    const top = Number(label.getAttribute("y")) - (angleOf(label) ? 0.5 : 0.8) * before;
    write(label, size);
    label.setAttribute("y", top);
    label.setAttribute("text-anchor", "end");
    label.setAttribute("transform", `translate(${x + 0.35 * parseFloat(label.style.fontSize)},0) rotate(-90,0,${top})`);
}

function write(label, size) {
    label.style.fontSize = `${Math.max(LEAST, Math.floor(2 * size) / 2)}px`;
}

const placeOf = (label) => /translate\(([-\d.e]+),([-\d.e]+)/.exec(label.getAttribute("transform"))?.slice(1).map(Number) ?? [0, 0];

const angleOf = (label) => Number(/rotate\((-?[\d.]+)/.exec(label.getAttribute("transform"))?.[1] || 0);

function apart(places) {
    const sorted = places.sort((one, other) => one - other);
    return Math.min(Infinity, ...sorted.slice(1).map((place, before) => place - sorted[before]));
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
    const { left, right } = label.getBoundingClientRect(), angle = angleOf(label);
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
