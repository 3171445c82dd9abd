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
const svgOf = async (Plotly, figure, { width, height }) => {
    const address = await Plotly.toImage(figure, { format: "svg", width, height });
    const svg = decodeURIComponent(address.slice(address.indexOf(",") + 1));
    return new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
};
const SAVED_AS = {
    async svg(Plotly, data, size) {
        const svg = await svgOf(Plotly, JSON.parse(data.figure), size);
        const about = document.createElementNS(svg.namespaceURI, "metadata");
        about.textContent = data.about;
        svg.prepend(about);
        if (data.millimetres) {
            const { width, height, millimetres } = size;
            svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
            svg.setAttribute("width", `${millimetres}mm`);
            svg.setAttribute("height", `${(millimetres * height) / width}mm`);
        }
        return new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" });
    },
    async png(Plotly, data, size) {
        const { width, height, millimetres } = size;
        // On screens twice as many pixels in each direction.
        const scale = data.millimetres ? (DOTS * millimetres) / width : 2;
        const address = await Plotly.toImage(JSON.parse(data.figure), { format: "png", width, height, scale });
        const png = Uint8Array.from(atob(address.slice(address.indexOf(",") + 1)), (letter) => letter.charCodeAt(0));
        return labelledPng(png, { ...size, about: data.about });
    },
    async pdf(Plotly, data, size) {
        const letters = await lettersFrom(data.letters);
        const jspdf = await library("jspdf", data.scripts.jspdf);
        await library("svg2pdf", data.scripts.svg2pdf); // adds itself to jsPDF
        const figure = JSON.parse(data.figure);
        figure.layout.font = { ...figure.layout.font, family: `${FAMILY}, sans-serif` };
        const svg = await svgOf(Plotly, figure, size);
        return pdfOf(svg, jspdf, letters, { ...size, title: data.title, about: data.about });
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
