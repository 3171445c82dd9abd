// The clicks that the page has not read yet. Streamlit lets a later message take the place of one that has not been read, so
// each message brings all of them, and the number of the first one. The page says how many it has read.
class Clicks {
    constructor() {
        this.waiting = [];
        this.seen = 0;
    }

    // Forget the clicks that the page has read.
    read(seen) {
        this.waiting.splice(0, seen < this.seen ? Infinity : seen - this.seen); // fewer: another session
        this.seen = seen;
    }

    // Return the message that tells the page of one more click.
    add(click) {
        this.waiting.push(click);
        return { first: this.seen, waiting: [...this.waiting] };
    }
}
