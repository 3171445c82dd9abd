// Copies the address. If the browser does not let pages write to the clipboard, as on addresses without https, this copies the
// text selected in the field; if that is refused too, the text stays selected.
export default function ({ parentElement, data }) {
    const field = parentElement.querySelector("input");
    const said = parentElement.querySelector(".said");
    field.value = data.address;
    field.onfocus = () => field.select();
    parentElement.querySelector("button").onclick = async () => {
        let copied = true;
        try {
            await navigator.clipboard.writeText(data.address);
        } catch {
            field.focus();
            field.select();
            copied = document.execCommand("copy");
        }
        said.textContent = copied ? "Copied." : "The browser does not allow copying. The address is selected: press Ctrl+C.";
    };
}
