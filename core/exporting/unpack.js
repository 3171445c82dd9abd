// Reads the text of an element, and unpacks plotly.js and the letters, which it measures when it draws.
const text = (id) => document.getElementById(id).textContent;
const unpack = async () => {
    const letters = Promise.allSettled([...document.fonts].map((face) => face.load()));
    const packed = Uint8Array.from(atob(text("plotly")), (letter) => letter.charCodeAt(0));
    const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(unpacked).text();
    document.head.append(script);
    await letters;
};
