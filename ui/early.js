// Keys that are pressed while a page that is presented still loads: the stage takes them once it is there.
window.headlightKeys = (() => {
    const keys = [];
    const press = (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        keys.push(event.key.length === 1 ? event.key.toLowerCase() : event.key);
    };
    const isPresented = new URLSearchParams(window.location.search).get("present") === "true";
    if (isPresented) window.addEventListener("keydown", press);
    return {
        take() {
            window.removeEventListener("keydown", press);
            return keys.splice(0);
        },
    };
})();
