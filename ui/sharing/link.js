// Copies the address. Where the browser lets no page write to its clipboard, as on addresses without https, it copies what is
// marked in the field, as people do; and where that is refused too, it leaves it marked for them.
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
