// Draws the figure again, out of sight, and saves it as a file.
let asked = null;
const plotly = (address) => (asked ??= new Promise((resolve, reject) => {
    if (window.Plotly?.downloadImage) return resolve(window.Plotly);
    const script = document.createElement("script");
    script.src = new URL(address, document.baseURI);
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => { asked = null; reject(new Error("the drawing script could not be loaded")); };
    document.head.append(script);
}));
export default function ({ parentElement, data }) {
    const said = parentElement.querySelector(".said");
    const save = async (format) => {
        said.textContent = "Drawing …";
        try {
            const figure = JSON.parse(data.figure);
            const { width, height } = figure.layout;
            // A PNG gets twice as many pixels in each direction; an SVG has none.
            const scale = format === "png" ? 2 : 1;
            const filename = data.name;
            await (await plotly(data.script)).downloadImage(figure, { format, width, height, scale, filename });
            said.textContent = "";
        } catch (error) {
            said.textContent = `The picture could not be drawn: ${error.message}`;
        }
    };
    for (const button of parentElement.querySelectorAll("button")) button.onclick = () => save(button.dataset.format);
}
