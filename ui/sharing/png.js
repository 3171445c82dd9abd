// A PNG with two more things inside: the size at which it is printed, and where its numbers come from.
function labelledPng(png, { width, millimetres, about }) {
    const perMetre = Math.round((1000 * new DataView(png.buffer).getUint32(16)) / millimetres);
    const size = new Uint8Array(9);
    const view = new DataView(size.buffer);
    view.setUint32(0, perMetre);
    view.setUint32(4, perMetre);
    size[8] = 1; // per metre
    const words = new TextEncoder().encode(`about\0\0\0\0\0${about}`);
    const after = 33; // the signature and the first chunk, which has the width and the height in pixels
    return new Blob([png.subarray(0, after), chunk("pHYs", size), chunk("iTXt", words), png.subarray(after)]);
}
function chunk(kind, bytes) {
    const whole = new Uint8Array(12 + bytes.length);
    const view = new DataView(whole.buffer);
    view.setUint32(0, bytes.length);
    whole.set(new TextEncoder().encode(kind), 4);
    whole.set(bytes, 8);
    view.setUint32(8 + bytes.length, checksum(whole.subarray(4, 8 + bytes.length)));
    return whole;
}
// CRC-32, as PNG wants it.
function checksum(bytes) {
    let left = -1;
    for (const byte of bytes) {
        left ^= byte;
        for (let bit = 0; bit < 8; bit += 1) left = (left >>> 1) ^ (left & 1 ? 0xedb88320 : 0);
    }
    return ~left >>> 0;
}
