// Draws the figure of a page.
const draw = async () => {
    await unpack();
    const { data, layout } = JSON.parse(text("figure"));
    await Plotly.newPlot("picture", data, layout, { displaylogo: false });
};
draw().catch((error) => {
    document.getElementById("picture").textContent = `This browser cannot draw the picture: ${error.message}`;
});
