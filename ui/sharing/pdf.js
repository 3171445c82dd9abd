// A picture as PDF: svg2pdf.js reads the SVG that Plotly has drawn, and jsPDF writes the file. Before that, words are placed
// one by one, because svg2pdf.js knows no sizes in percent and misplaces bold words in a line; and coarse pixels become fine,
// because viewers blur them.
const DOTS = 600 / 25.4; // in a millimetre of print
const MOST_DOTS = 4_000_000; // of one image
const WEIGHTS = ["normal", "bold"];
const OTHER_ORDER = /[\p{M}\p{Script=Hebrew}\p{Script=Arabic}]/u; // letters whose shape or order depends on their neighbours

// The bytes of the two weights of the letters. The page has the same ones, with which the browser measures.
const lettersFrom = (addresses) => once("letters", () => Promise.all(addresses.map(async (address) => {
    const bytes = new Uint8Array(await (await fetched(address)).arrayBuffer());
    return Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
})));

async function pdfOf(svg, { jsPDF }, fonts, { width, height, millimetres, title, about, family }) {
    const points = (millimetres * 72) / 25.4;
    const size = { width: points, height: (points * height) / width };
    const orientation = width > height ? "landscape" : "portrait";
    const pdf = new jsPDF({ unit: "pt", format: Object.values(size), orientation, compress: true, putOnlyUsedFonts: true });
    // In ASCII, because a reader may take half of a character such as 不 for the end of a line.
    const ascii = about.replace(/[^ -~]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);
    pdf.setProperties({ title, subject: ascii, creator: "Headlight" });
    WEIGHTS.forEach((weight, place) => {
        pdf.addFileToVFS(`${weight}.ttf`, fonts[place]);
        pdf.addFont(`${weight}.ttf`, family, weight);
    });
    const holder = document.createElement("div"); // what is not on the page has no places
    holder.style.cssText = `position: fixed; left: -4000px; top: 0; width: ${width}px; height: ${height}px`;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.style.cssText += "; font-kerning: none; font-variant-ligatures: none"; // jsPDF has no such letters
    holder.append(document.adoptNode(svg));
    document.body.append(holder);
    try {
        const dots = (DOTS * millimetres) / width; // in a pixel
        for (const image of svg.querySelectorAll("image")) await makeFiner(image, dots);
        for (const text of svg.querySelectorAll("text")) text.replaceWith(...pieces(text, pdf, family, dots));
        await pdf.svg(svg, size);
        return pdf.output("blob");
    } finally {
        holder.remove();
    }
}
// Draw each cell of a heatmap, one pixel for Plotly, in many pixels.
async function makeFiner(image, dots) {
    if (getComputedStyle(image).imageRendering !== "pixelated") return;
    const cells = new Image();
    cells.src = image.href.baseVal;
    await cells.decode();
    const { width, height } = image.getBBox();
    const scale = Math.min(dots, Math.sqrt(MOST_DOTS / width / height));
    const times = (pixels, side) => pixels * Math.ceil((scale * side) / pixels);
    const pen = paper(times(cells.naturalWidth, width), times(cells.naturalHeight, height));
    pen.imageSmoothingEnabled = false;
    pen.drawImage(cells, 0, 0, pen.canvas.width, pen.canvas.height);
    image.setAttribute("xlink:href", pen.canvas.toDataURL());
}
function paper(width, height) {
    return Object.assign(document.createElement("canvas"), { width, height }).getContext("2d");
}
// The words of a text, an element for all that look alike, each where the browser has placed it.
function pieces(text, pdf, family, dots) {
    const made = [];
    const walker = document.createTreeWalker(text, NodeFilter.SHOW_TEXT);
    for (let place = 0; walker.nextNode(); place += walker.currentNode.data.length) {
        const { data: words, parentElement } = walker.currentNode;
        if (!/[^\s\u200b]/.test(words)) continue;
        const { fill, fillOpacity, fontSize, fontStyle, fontWeight } = getComputedStyle(parentElement);
        const look = { fill, fillOpacity, fontSize, fontFamily: family, fontWeight: WEIGHTS[Number(fontWeight >= 600)] };
        const x = Math.min(...Array.from(words, (_, letter) => text.getExtentOfChar(place + letter).x));
        const { y } = text.getStartPositionOfChar(place);
        const { metadata } = pdf.getFont(family, look.fontWeight);
        const isPlain = fontStyle === "normal" && !OTHER_ORDER.test(words)
            && [...words].every((letter) => metadata.characterToGlyph(letter.codePointAt(0)));
        made.push(isPlain ? piece(text, words, look, { x, y }) : pixels(text, words, { ...look, fontStyle }, { x, y }, dots));
    }
    return made;
}
const put = (element, values) => {
    for (const [name, value] of Object.entries(values)) element.setAttribute(name, value);
    return element;
};
function piece(text, words, look, place) {
    const made = put(text.cloneNode(), place);
    Object.assign(made.style, look, { textAnchor: "start", whiteSpace: "pre" });
    made.textContent = words;
    return made;
}
// Words with letters that the file would lack, as the browser draws them.
function pixels(text, words, { fill, fillOpacity, fontFamily, fontSize, fontStyle, fontWeight }, { x, y }, dots) {
    const font = `${fontStyle} ${fontWeight} ${fontSize} ${fontFamily}, sans-serif`;
    const size = parseFloat(fontSize);
    const { width } = Object.assign(paper(1, 1), { font }).measureText(words);
    const pen = paper(Math.ceil(width * dots), Math.ceil(2 * size * dots));
    pen.scale(dots, dots);
    Object.assign(pen, { font, fillStyle: fill, globalAlpha: fillOpacity }).fillText(words, 0, 1.5 * size);
    const drawn = { width, height: 2 * size, preserveAspectRatio: "none", href: pen.canvas.toDataURL() };
    const transform = text.getAttribute("transform") ?? "";
    return put(document.createElementNS(text.namespaceURI, "image"), { x, y: y - 1.5 * size, transform, ...drawn });
}
