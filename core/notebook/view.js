// The cell of `view`: all heads as small pictures, and the chosen one as a heatmap and as a text. Stands after
// core/figures/text/tokens.js and text_view.js.
// Tokens are other people's text: they are always set as text, never as markup.

const [ABOUT, COLOURS, PICTURES, LARGEST, HEADS] = [0, 1, 2, 3, 4]; // lines of the data; from the last on, a head each
const PIN = "#e6007e"; // as --pin in tokens.css
const GUTTER = 30; // pixels for the numbers of layers and heads
const LABEL = 104; // the most pixels for tokens beside the heatmap
const LETTER = 13; // pixels
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

const lines = document.getElementById("data").textContent.trim().split("\n");

async function unpacked(line) {
    const packed = Uint8Array.from(atob(lines[line]), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
}

const fontOf = (isChosen) => `${isChosen ? "bold " : ""}${LETTER - 1}px system-ui, sans-serif`;
const short = (text) => ([...text].length > 13 ? `${[...text].slice(0, 12).join("")}…` : text);
const clamped = (value, count) => Math.max(0, Math.min(value, count - 1));

class Cell {
    constructor(about, colours, pictures, largest) {
        Object.assign(this, { about, colours, pictures, largest });
        [this.query, this.key] = about.cell;
        this.queries = about.queries;
        this.keys = about.keys || about.queries;
        this.rows = this.queries.text.length;
        this.columns = this.keys.text.length;
        this.isPooled = this.queries.block * this.keys.block > 1;
        this.isShares = largest.every((weight) => weight <= 1.001);
        this.build();
    }

    // --- the elements

    build() {
        const { layers, heads } = this.about;
        this.layer = this.menu("Layer", layers, () => this.choose(this.layer.value * heads + (this.head % heads)));
        this.within = this.menu("Head", heads, () => this.choose(Math.floor(this.head / heads) * heads + +this.within.value));
        const menus = [this.layer, this.within].map((menu) => make("label", "", [`${menu.name} `, menu]));
        this.gridBox = make("div", "box grid");
        this.grid = this.gridBox.appendChild(document.createElement("canvas"));
        this.keysOf(this.gridBox, `All heads: ${count(layers, "layer")} down, ${count(heads, "head")} across. Arrow keys choose one.`);
        this.matrixBox = make("div", "box");
        this.matrix = this.matrixBox.appendChild(document.createElement("canvas"));
        this.keysOf(this.matrixBox, "Weights of the chosen head, queries down and keys across. Arrow keys choose a pair.");
        this.title = make("h3", "chosen");
        this.title.setAttribute("aria-live", "polite");
        this.scale = make("p", "aside");
        this.said = make("p", "said");
        this.said.setAttribute("aria-live", "polite");
        const hint = make("p", "aside", ["Choose a head with a click or the arrow keys."]);
        const notes = make("div", "notes", this.about.notes.map((note) => make("p", "", [note])));
        const most = this.isShares ? "100%" : "1 and more";
        const scale = make("p", "aside", ["0 ", this.bar(), ` ${most}, by the square root, the same for all heads.`]);
        const above = [make("h3", "", ["All heads"]), scale, make("div", "menus", menus)];
        const left = make("section", "", [...above, this.gridBox, hint, notes]);
        const right = make("section", "", [this.title, this.scale, this.matrixBox, this.said]);
        const textBox = make("section", "text");
        document.body.replaceChildren(make("main", "", [make("div", "sides", [left, right]), textBox]));
        this.text = new TextView(textBox);
        this.text.say = (weight) => this.share(weight);
        this.listen();
    }

    menu(name, number, onChange) {
        const menu = make("select", "", [...Array(number).keys()].map((at) => new Option(at, at)));
        menu.name = name;
        menu.onchange = onChange;
        return menu;
    }

    keysOf(box, label) {
        box.tabIndex = 0;
        box.setAttribute("role", "application");
        box.setAttribute("aria-label", label);
    }

    listen() {
        const { layers, heads } = this.about;
        const stepOf = (event) => (event.ctrlKey || event.metaKey || event.altKey ? null : STEPS[event.key]);
        this.gridBox.onkeydown = (event) => {
            const step = stepOf(event);
            if (!step) return;
            event.preventDefault();
            event.stopPropagation(); // a notebook moves to another cell with the same keys
            const [down, across] = [Math.floor(this.wanted / heads) + step[0], (this.wanted % heads) + step[1]];
            this.choose(clamped(down, layers) * heads + clamped(across, heads));
        };
        const headAt = ({ offsetX, offsetY }) => [
            clamped(Math.floor((offsetY - GUTTER) / this.size[0]), layers),
            clamped(Math.floor((offsetX - GUTTER) / this.size[1]), heads),
        ];
        this.grid.onclick = (event) => {
            const [layer, head] = headAt(event);
            this.choose(layer * heads + head);
        };
        this.grid.onpointermove = (event) => {
            const [layer, head] = headAt(event);
            this.grid.title = `Layer ${layer}, head ${head}`;
        };
        this.matrixBox.onkeydown = (event) => {
            const step = stepOf(event);
            if (!step) return;
            event.preventDefault();
            event.stopPropagation();
            this.pin(clamped(this.query + step[0], this.rows), clamped(this.key + step[1], this.columns));
        };
        this.matrix.onpointermove = (event) => this.point(this.cellAt(event));
        this.matrix.onpointerleave = () => this.point(null);
        this.matrix.onclick = (event) => {
            const cell = this.cellAt(event);
            if (cell) this.pin(...cell);
        };
        new ResizeObserver(() => this.paint()).observe(document.body);
    }

    // --- choosing

    async choose(head) {
        this.wanted = head;
        const bytes = await unpacked(HEADS + head);
        if (this.wanted !== head) return; // another one has been chosen meanwhile
        const cells = this.rows * this.columns;
        const isWide = this.about.levels > 255;
        this.levels = isWide ? Uint16Array.from({ length: cells }, (_, at) => bytes[at] * 256 + bytes[cells + at]) : bytes;
        this.head = head;
        this.step = this.largest[head] / this.about.levels;
        this.weights = Float32Array.from(this.levels, (level) => level * this.step);
        const [layer, within] = [Math.floor(head / this.about.heads), head % this.about.heads];
        [this.layer.value, this.within.value] = [layer, within];
        this.title.textContent = `Layer ${layer}, head ${within}`;
        this.scale.replaceChildren(...this.legend());
        this.paint();
        this.showText();
        this.point(null);
    }

    pin(query, key) {
        [this.query, this.key] = [query, key];
        this.paintMatrix();
        this.showText();
        this.point(null);
    }

    showText() {
        const data = { queries: this.about.queries, keys: this.about.keys, weights: this.weights, direction: "from", lines: false };
        const tell = (place) => this.pin(place, this.key);
        this.text.update({ ...data, pinned: [this.query], percent: this.isShares }, tell);
    }

    // Say the weight of a pair, and shade the text by its query; null: of the chosen pair.
    point(cell) {
        this.pointed = cell;
        const [query, key] = cell || [this.query, this.key];
        const of = this.isPooled ? "largest " : "";
        const later = this.isPooled || this.about.looksAhead || key <= query ? "" : ", a later token";
        const words = [name(this.queries, query), " → ", name(this.keys, key), ": ", of];
        this.said.replaceChildren(...words, make("b", "", [this.exact(this.weights[query * this.columns + key])]), later);
        this.text.hover(cell ? this.text.queries.tokens[query] : null);
    }

    // --- numbers

    // Digits after the point that the steps tell apart, and how far from the weight a number with so many can be.
    get digits() {
        return clamped(Math.ceil(-Math.log10(this.step / 2)), 16);
    }

    get margin() {
        const { digits } = this;
        const unit = 10 ** -digits;
        return (Math.ceil((this.step / 2 + unit / 2) / unit - 0.001) * unit).toFixed(digits);
    }

    exact(weight) {
        return this.step ? `${weight.toFixed(this.digits)} ± ${this.margin}` : "0";
    }

    // A weight in a sentence, with at most three digits that count.
    share(weight) {
        const [number, digits, unit] = this.isShares ? [100 * weight, this.digits - 2, "%"] : [weight, this.digits, ""];
        if (number === 0) return `0${unit}`;
        return number.toFixed(Math.max(0, Math.min(digits, 2 - Math.floor(Math.log10(number))))) + unit;
    }

    bar() {
        const bar = make("span", "bar");
        const colours = [0, 64, 128, 192, 255].map((level) => `rgb(${this.colours.subarray(3 * level, 3 * level + 3)})`);
        bar.style.background = `linear-gradient(to right, ${colours})`;
        return bar;
    }

    legend() {
        const sums = this.about.sums[this.head];
        const [low, high] = (sums || []).map((sum) => String(Number(sum.toPrecision(5))));
        const rows = sums ? ` Its rows sum to ${low === high ? low : `${low} to ${high}`}, not 1.` : "";
        const most = this.share(this.largest[this.head]);
        return ["0 ", this.bar(), ` ${most}, by the square root. Weights are exact to ± ${this.margin}.${rows}`];
    }

    // --- pictures

    paint() {
        if (!this.levels) return;
        this.paintGrid();
        this.paintMatrix();
    }

    // Return the context of a canvas of this size in pixels of the page.
    paper(canvas, width, height) {
        const sharpness = window.devicePixelRatio || 1;
        Object.assign(canvas, { width: Math.round(width * sharpness), height: Math.round(height * sharpness) });
        Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
        const context = canvas.getContext("2d");
        context.scale(sharpness, sharpness);
        context.font = fontOf(false);
        context.fillStyle = getComputedStyle(document.body).color;
        context.textBaseline = "middle";
        return context;
    }

    // Return a canvas with a pixel a cell; colour(row, column): a place among the colours, or -1 for none.
    pixels(rows, columns, colour) {
        const canvas = Object.assign(document.createElement("canvas"), { width: columns, height: rows });
        const context = canvas.getContext("2d");
        const image = context.createImageData(columns, rows);
        for (let row = 0, at = 0; row < rows; row++) {
            for (let column = 0; column < columns; column++, at += 4) {
                const place = 3 * colour(row, column);
                if (place < 0) continue;
                for (let part = 0; part < 3; part++) image.data[at + part] = this.colours[place + part];
                image.data[at + 3] = 255;
            }
        }
        context.putImageData(image, 0, 0);
        return canvas;
    }

    paintGrid() {
        const { layers, heads, picture } = this.about;
        const [down, across] = picture;
        const room = this.gridBox.parentElement.clientWidth - GUTTER;
        const high = Math.max(10, Math.min(64, Math.floor(520 / layers), Math.floor((2 * room) / heads)));
        const wide = Math.max(10, Math.min(64, 2 * high, Math.floor(room / heads)));
        this.size = [high, wide];
        const [width, height] = [heads * wide, layers * high];
        const context = this.paper(this.grid, GUTTER + width, GUTTER + height);
        this.small ??= this.pixels(layers * (down + 1), heads * (across + 1), (row, column) => {
            const [y, x] = [row % (down + 1), column % (across + 1)];
            if (y === down || x === across) return -1;
            const head = Math.floor(row / (down + 1)) * heads + Math.floor(column / (across + 1));
            return this.pictures[(head * down + y) * across + x];
        });
        context.imageSmoothingEnabled = high < down || wide < across;
        context.drawImage(this.small, GUTTER, GUTTER, width, height);
        const numbers = (total, size, write) => {
            for (let at = 0; at < total; at += Math.ceil(24 / size)) write(at, GUTTER + (at + 0.5) * size);
        };
        context.textAlign = "center";
        numbers(heads, wide, (at, middle) => context.fillText(at, middle, GUTTER / 2));
        context.textAlign = "right";
        numbers(layers, high, (at, middle) => context.fillText(at, GUTTER - 6, middle));
        const [layer, head] = [Math.floor(this.head / heads), this.head % heads];
        const box = [GUTTER + head * wide - 1, GUTTER + layer * high - 1, wide, high];
        Object.assign(context, { strokeStyle: PIN, lineWidth: 3 });
        context.strokeRect(...box);
        const shown = this.gridBox;
        const sides = [["scrollTop", "clientHeight", box[1], high], ["scrollLeft", "clientWidth", box[0], wide]];
        for (const [scrolled, length, from, size] of sides) {
            const [first, room] = [shown[scrolled], shown[length]];
            if (from < first || from + size > first + room) shown[scrolled] = from - room / 2;
        }
    }

    paintMatrix() {
        const { rows, columns, query, key } = this;
        const sides = [[this.queries, query], [this.keys, key]];
        const [left, below] = sides.map(([side, chosen]) => this.labelRoom(side, chosen));
        const room = Math.max(120, Math.min(560, this.matrixBox.parentElement.clientWidth - left - 8));
        const cell = Math.min(40, room / columns, 560 / rows);
        this.cell = cell >= 1 ? Math.floor(cell * 4) / 4 : cell;
        this.left = left;
        const [width, height] = [columns * this.cell, rows * this.cell];
        const context = this.paper(this.matrix, left + width + 8, height + below);
        context.imageSmoothingEnabled = false;
        // Where a pixel stands for several cells it shows the largest of them.
        const fold = Math.ceil(1 / (this.cell * (window.devicePixelRatio || 1)));
        const drawn = this.folded(fold);
        context.drawImage(drawn, left, 0, drawn.width * fold * this.cell, drawn.height * fold * this.cell);
        const label = ([side, chosen], draw) => {
            const every = Math.ceil((LETTER + 1) / this.cell);
            side.text.forEach((text, at) => {
                if (at !== chosen && (at % every || Math.abs(at - chosen) < every)) return;
                context.font = fontOf(at === chosen);
                draw(short(text), Math.max((at + 0.5) * this.cell, LETTER / 2));
            });
        };
        context.textAlign = "right";
        label(sides[0], (text, at) => context.fillText(text, left - 6, at, LABEL - 8));
        label(sides[1], (text, at) => {
            context.save();
            context.translate(left + at, height + 6);
            context.rotate(-Math.PI / 2);
            context.fillText(text, 0, 0, LABEL - 8);
            context.restore();
        });
        Object.assign(context, { strokeStyle: PIN, lineWidth: 2 });
        const frame = (x, y, wide, high) => context.strokeRect(x - wide / 2, y - high / 2, wide, high);
        const [across, down] = [left + (key + 0.5) * this.cell, (query + 0.5) * this.cell];
        frame(left + width / 2, down, width, Math.max(this.cell, 3));
        frame(across, down, Math.max(this.cell, 6), Math.max(this.cell, 6));
    }

    // Return the pixels that the labels of a side may need.
    labelRoom(side, chosen) {
        const context = this.matrix.getContext("2d");
        const widths = side.text.map((text, at) => {
            context.font = fontOf(at === chosen);
            return context.measureText(short(text)).width;
        });
        return Math.min(LABEL, Math.ceil(widths.reduce((most, width) => Math.max(most, width), 0)) + 12);
    }

    // Return the picture of the chosen head with a pixel for the largest of `fold` by `fold` cells.
    folded(fold) {
        const { rows, columns, levels } = this;
        const end = (place, count) => Math.min(count, (place + 1) * fold);
        return this.pixels(Math.ceil(rows / fold), Math.ceil(columns / fold), (row, column) => {
            let most = 0;
            for (let y = row * fold; y < end(row, rows); y++) {
                for (let x = column * fold; x < end(column, columns); x++) most = Math.max(most, levels[y * columns + x]);
            }
            return Math.round(255 * Math.sqrt(most / this.about.levels));
        });
    }

    cellAt({ offsetX, offsetY }) {
        const [query, key] = [offsetY, offsetX - this.left].map((at) => Math.floor(at / this.cell));
        return query >= 0 && query < this.rows && key >= 0 && key < this.columns ? [query, key] : null;
    }
}

// --- the notebook around

// Return the colour on which the cell stands: that of the notebook, or what the browser prefers.
function ground() {
    const isLight = ([red, green, blue]) => red + green + blue > 382;
    try {
        const frame = window.frameElement;
        for (let element = frame; element; element = element.parentElement) {
            const colour = element.ownerDocument.defaultView.getComputedStyle(element).backgroundColor;
            const [, , , opacity = 1] = colour.match(/[\d.]+/g) || [];
            if (opacity > 0.5) return rgb(colour);
        }
        if (frame) return isLight(rgb(getComputedStyle(frame).color)) ? [20, 23, 28] : [255, 255, 255];
    } catch {
        // The notebook is of another origin and does not tell.
    }
    return matchMedia("(prefers-color-scheme: dark)").matches ? [20, 23, 28] : [255, 255, 255];
}

function followTheme(onChange) {
    const root = document.documentElement;
    const follow = () => {
        const colour = ground();
        const isDark = colour.reduce((sum, part) => sum + part) < 382;
        root.style.setProperty("--st-background-color", `rgb(${colour})`);
        if (root.className === (isDark ? "dark" : "light")) return;
        root.className = isDark ? "dark" : "light";
        onChange();
    };
    follow();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", follow);
    try {
        const outside = window.frameElement?.ownerDocument;
        const watched = outside ? [outside.documentElement, outside.body] : [];
        for (const element of watched) new MutationObserver(() => setTimeout(follow, 100)).observe(element, { attributes: true });
    } catch {
        // as above
    }
}

// Give the frame the height of what is in it.
function fitFrame() {
    try {
        const frame = window.frameElement;
        if (!frame) return;
        const fit = () => (frame.style.height = `${Math.ceil(document.body.getBoundingClientRect().height) + 20}px`);
        new ResizeObserver(fit).observe(document.body);
        fit();
    } catch {
        // as above
    }
}

async function start() {
    const [about, colours, pictures, largest] = await Promise.all([ABOUT, COLOURS, PICTURES, LARGEST].map(unpacked));
    let cell = null;
    followTheme(() => cell && cell.choose(cell.wanted));
    const read = JSON.parse(new TextDecoder().decode(about));
    cell = new Cell(read, colours, pictures, new Float32Array(largest.buffer));
    await cell.choose(read.head);
    fitFrame();
}

start().catch((error) => {
    document.body.textContent = `This browser cannot show the view: ${error.message}`;
});
