// Draws the figure again, out of sight, and saves it as a file.
const PIXEL = 25.4 / 96; // millimetres
const kept = {};
const once = (name, make) => (kept[name] ??= make().catch((error) => {
    delete kept[name];
    throw error;
}));
const library = (name, address) => once(name, () => new Promise((resolve, reject) => {
    if (window[name]) return resolve(window[name]);
    const script = document.createElement("script");
    script.src = new URL(address, document.baseURI);
    script.onload = () => resolve(window[name]);
    script.onerror = () => reject(new Error("the drawing script could not be loaded"));
    document.head.append(script);
}));
const fetched = async (address) => {
    const answer = await fetch(new URL(address, document.baseURI));
    if (!answer.ok) throw new Error("the letters could not be loaded");
    return answer;
};
const svgOf = async (Plotly, data, { width, height }) => {
    const address = await Plotly.toImage(JSON.parse(data.figure), { format: "svg", width, height });
    const svg = decodeURIComponent(address.slice(address.indexOf(",") + 1));
    return new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
};
// The same with its letters inside: a file has none of the page's, and neither has an image.
const wholeSvgOf = async (Plotly, data, size) => {
    const svg = await svgOf(Plotly, data, size);
    const style = document.createElementNS(svg.namespaceURI, "style");
    style.textContent = await once("faces", async () => (await fetched(data.faces)).text());
    svg.prepend(style);
    return svg;
};
const written = (svg) => new XMLSerializer().serializeToString(svg);
const SAVED_AS = {
    async svg(Plotly, data, size) {
        const svg = await wholeSvgOf(Plotly, data, size);
        const about = document.createElementNS(svg.namespaceURI, "metadata");
        about.textContent = data.about;
        svg.prepend(about);
        if (data.millimetres) {
            const { width, height, millimetres } = size;
            svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
            svg.setAttribute("width", `${millimetres}mm`);
            svg.setAttribute("height", `${(millimetres * height) / width}mm`);
        }
        return new Blob([written(svg)], { type: "image/svg+xml" });
    },
    async png(Plotly, data, size) {
        const { width, height, millimetres } = size;
        // On screens twice as many pixels in each direction.
        const scale = data.millimetres ? (DOTS * millimetres) / width : 2;
        const pen = paper(scale * width, scale * height);
        const svg = await wholeSvgOf(Plotly, data, size);
        put(svg, { viewBox: `0 0 ${width} ${height}`, width: pen.canvas.width, height: pen.canvas.height });
        const image = new Image();
        image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(written(svg))}`;
        await image.decode();
        pen.drawImage(image, 0, 0);
        const png = await new Promise((resolve) => pen.canvas.toBlob(resolve));
        return labelledPng(new Uint8Array(await png.arrayBuffer()), { ...size, about: data.about });
    },
    async pdf(Plotly, data, size) {
        const letters = await lettersFrom(data.letters);
        const jspdf = await library("jspdf", data.scripts.jspdf);
        await library("svg2pdf", data.scripts.svg2pdf); // adds itself to jsPDF
        const svg = await svgOf(Plotly, data, size);
        return pdfOf(svg, jspdf, letters, { ...size, title: data.title, about: data.about, family: data.family });
    },
};
function save(blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    document.body.append(link); // Firefox follows no link outside of the page
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
export default function ({ parentElement, data }) {
    const said = parentElement.querySelector(".said");
    const draw = async (format) => {
        said.textContent = "Drawing …";
        try {
            const { width, height } = JSON.parse(data.figure).layout;
            const size = { width, height, millimetres: data.millimetres || width * PIXEL };
            const Plotly = await library("Plotly", data.scripts.Plotly);
            save(await SAVED_AS[format](Plotly, data, size), `${data.name}.${format}`);
            said.textContent = "";
        } catch (error) {
            said.textContent = `The picture could not be drawn: ${error.message}`;
        }
    };
    for (const button of parentElement.querySelectorAll("button")) button.onclick = () => draw(button.dataset.format);
}
