// Small pictures of the views of a talk: what was on the screen. The browser keeps them, by the links of the views.
const PICTURES = "headlight-pictures"; // in the browser's storage
const WIDE = 320, HIGH = 180; // pixels
const LONGEST = 16000, MOST = 100; // letters of a picture, as an address; pictures

function picturesKept() {
    try {
        return JSON.parse(window.localStorage.getItem(PICTURES)) ?? {};
    } catch {
        return {};
    }
}

function keepPicture(link, picture) {
    const others = Object.entries(picturesKept()).filter(([other]) => other !== link).slice(1 - MOST);
    try {
        if (picture) window.localStorage.setItem(PICTURES, JSON.stringify(Object.fromEntries([...others, [link, picture]])));
    } catch { /* there is no room: the view is shown without a picture */ }
}

// Return a small picture of the chart that is largest in this shape, as it is drawn now; undefined where the page has none.
async function smallPicture() {
    const size = ({ clientWidth, clientHeight }) => Math.min(clientWidth / WIDE, clientHeight / HIGH);
    const charts = [...document.querySelectorAll("[class*=st-key-picture_] .js-plotly-plot")];
    const [chart] = charts.sort((one, other) => size(other) - size(one));
    if (!chart) return undefined;
    const { clientWidth: width, clientHeight: height } = chart;
    const layers = [...chart.querySelectorAll(".main-svg")].map((layer) => new XMLSerializer().serializeToString(layer)).join("");
    const whole = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}">${layers}</svg>`;
    const image = Object.assign(new Image(), { src: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(whole)}` });
    const canvas = Object.assign(document.createElement("canvas"), { width: WIDE, height: HIGH });
    const scale = Math.min(WIDE / width, HIGH / height), sides = [scale * width, scale * height];
    await image.decode();
    canvas.getContext("2d").drawImage(image, (WIDE - sides[0]) / 2, (HIGH - sides[1]) / 2, ...sides);
    return [0.8, 0.4].map((quality) => canvas.toDataURL("image/webp", quality)).find(({ length }) => length <= LONGEST);
}
