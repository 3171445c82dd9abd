// Buttons that play a knob: frames.js does it, and says whether it plays. The Tab key does not stop at those for one step: the arrow
// keys of the equation, or of the slider, do the same.
export default function ({ parentElement, data }) {
    const player = parentElement.querySelector(".player"), play = player.querySelector(".play");
    const ask = (what) => window.dispatchEvent(new CustomEvent("headlight-play", { detail: { knob: data.knob, what } }));
    play.hidden = matchMedia("(prefers-reduced-motion: reduce)").matches;
    play.onclick = () => ask("play");
    player.querySelector(".back").onclick = () => ask("back");
    player.querySelector(".on").onclick = () => ask("on");
    const show = (isPlaying) => {
        player.classList.toggle("playing", isPlaying);
        play.querySelector("span").textContent = isPlaying ? "Pause" : data.label;
    };
    show(false);
    const listening = new AbortController();
    window.addEventListener("headlight-playing", ({ detail }) => show(detail === data.knob), { signal: listening.signal });
    return () => listening.abort();
}
