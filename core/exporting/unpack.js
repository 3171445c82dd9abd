// Reads the text of an element, and unpacks plotly.js.
const text = (id) => document.getElementById(id).textContent;
const unpack = async () => {
    const packed = Uint8Array.from(atob(text("plotly")), (letter) => letter.charCodeAt(0));
    const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(unpacked).text();
    document.head.append(script);
};
